'use strict'

// What must not pass; tests/control/test_from_node.py has what each says.

const assert = require('node:assert')
const path = require('node:path')
const { test } = require('node:test')
const { Kafka, logLevel } = require('kafkajs')
const { withCluster } = require('broker-sim')

test('a rule that never matches', withCluster({}, async (kafka) => {
  await kafka.fault({ api: 'OffsetCommit', group: 'billing', drop: true, times: 1 })
}))

test('a failure without a cluster any more', withCluster({}, async (kafka) => {
  await kafka.close()
  assert.fail('the cluster is gone')
}))

test('a failure of its own', withCluster({ topics: { orders: 1 } }, async (kafka) => {
  const app = new Kafka({ clientId: 'app', brokers: kafka.brokers, logLevel: logLevel.NOTHING }).consumer({ groupId: 'billing' })
  await app.connect()
  kafka.beforeClose(() => app.disconnect())
  await app.subscribe({ topic: 'orders' })
  await app.run({ eachMessage: async () => {} })
  await kafka.groupWait('billing', { state: 'Stable', members: 1 })
  assert.fail("the test's own")
}))

test('a scenario whose expectations fail', withCluster({}, async (kafka) => {
  const scenario = await kafka.startScenario(path.join(__dirname, 'nobody.yaml'))
  await scenario.awaitStep('nothing', '20s')
}))
