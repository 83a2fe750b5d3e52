'use strict'

const assert = require('node:assert')
const path = require('node:path')
const { test } = require('node:test')
const { Kafka, logLevel } = require('kafkajs')
const { BrokerSimError, startCluster, withCluster } = require('broker-sim')

const GROUP = 'billing'
const ORDERS = { topics: { orders: 3 } }

/** The application under test, here a bare consumer of orders in kafkajs; it leaves its group when the test ends. */
async function consumer(kafka, clientId = 'app', more = {}, running = {}) {
  const client = new Kafka({ clientId, brokers: kafka.brokers, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 20 }, ...more })
  const app = client.consumer({ groupId: GROUP, heartbeatInterval: 200, maxWaitTimeInMs: 100 })
  const seen = []
  await app.connect()
  kafka.beforeClose(() => app.disconnect())
  await app.subscribe({ topic: 'orders', fromBeginning: true })
  await app.run({ ...running, eachMessage: async ({ message }) => { seen.push(String(message.value)) } })
  return { app, seen }
}

test('records that a client produces are read', withCluster(ORDERS, async (kafka) => {
  const producer = new Kafka({ brokers: kafka.brokers, logLevel: logLevel.NOTHING }).producer()
  await producer.connect()
  kafka.beforeClose(() => producer.disconnect())
  await producer.send({ topic: 'orders', messages: [{ partition: 0, key: 'k', value: 'one' }, { partition: 0, key: null, value: 'two' }] })
  const [one, two] = await kafka.awaitRecords('orders', 2, '10s')
  assert.deepStrictEqual([one.key, one.value, two.key, two.value], ['k', 'one', null, 'two'])
}))

test('a commit whose connection is lost is sent again', withCluster(ORDERS, async (kafka) => {
  const lost = await kafka.fault({ api: 'OffsetCommit', group: GROUP, drop: true, times: 1 })
  await kafka.topicFill('orders', 30)
  await consumer(kafka)
  await lost.awaitHits(1, '20s')
  const commits = await kafka.awaitRequests(2, { api: 'OffsetCommit', client_id: 'app', timeout: '20s' })
  assert.ok(commits.every((one) => one.group === GROUP))
  const { members } = await kafka.groupWait(GROUP, { state: 'Stable', members: 1, lag_below: 1, timeout: '20s' })
  assert.strictEqual(members[0].client_id, 'app')
  assert.match((await kafka.groupExplain(GROUP)).text, /app/)
}))

test('the coordinator moves while its log is stuck', withCluster({ brokers: 2, ...ORDERS }, async (kafka) => {
  const log = `offsets(${GROUP})`
  await consumer(kafka)
  const { coordinator } = await kafka.groupWait(GROUP, { state: 'Stable', members: 1, reading: true, timeout: '20s' })
  const jam = await kafka.state(log, 'stuck')
  await kafka.topicFill('orders', 30)
  await jam.awaitPending(1, '20s')
  await kafka.leaderMove(log, { broker: 3 - coordinator })
  await jam.heal()
  const group = await kafka.groupWait(GROUP, { state: 'Stable', members: 1, lag_below: 1, timeout: '20s' })
  assert.strictEqual(group.coordinator, 3 - coordinator)
}))

const incident = (name) => path.join(__dirname, 'incidents', name)

test('a commit survives the incident of a file', withCluster({ scenario: incident('stuck.yaml'), clock: 'manual' }, async (kafka) => {
  const { app } = await consumer(kafka, 'app', {}, { autoCommit: false })
  await kafka.scenario.awaitStep('stuck', '20s')
  const commit = app.commitOffsets([{ topic: 'orders', partition: 0, offset: '1' }])
  await kafka.logWait(`offsets(${GROUP})`, { pending: 1, timeout: '20s' })
  await kafka.clockAdvance('5s') // offsets.commit.timeout.ms of the broker
  await kafka.scenario.awaitStep('a commit fails', '20s')
  assert.strictEqual((await kafka.scenario.describe()).running, true)
  await kafka.clockAdvance('35s') // the 40 s are over
  await commit
  const { verdict, results } = await kafka.scenario.awaitEnd('20s')
  assert.deepStrictEqual([verdict, results.length], ['held', 2])
}))

test('what a file has broken is mended', withCluster({ brokers: 3 }, async (kafka) => {
  const dies = await kafka.startScenario(incident('broker-dies.yaml'))
  await consumer(kafka)
  await dies.awaitStep('the broker is down', '20s')
  assert.strictEqual((await kafka.brokerGet(2)).alive, false)
  await dies.awaitEnd('40s')
  await dies.end()
  assert.strictEqual((await kafka.brokerGet(2)).alive, true)
}))

test('a line of a scenario that can not be is named', withCluster({}, async (kafka) => {
  await assert.rejects(kafka.startScenario(incident('crash.yaml')), /crash\.yaml:4: the client app is one that the test starts/)
  await assert.rejects(startCluster({ scenario: incident('nowhere.yaml') }), /ENOENT/)
}))

test('time passes on command', withCluster({ clock: 'manual', ...ORDERS }, async (kafka) => {
  const before = (await kafka.clockGet()).now_ms
  await kafka.clockAdvance('1h')
  assert.strictEqual((await kafka.clockGet()).now_ms - before, 3_600_000)
  const events = await kafka.journalRead({ limit: 5 })
  assert.ok(events.every((one) => one.seq > 0), JSON.stringify(events))
}))

test('a client authenticates', withCluster({ security_protocol: 'SASL_SSL', users: { alice: 'secret' } }, async (kafka) => {
  for (const [password, works] of [['secret', true], ['wrong', false]]) {
    const sasl = { mechanism: 'scram-sha-256', username: 'alice', password }
    const admin = new Kafka({ brokers: kafka.brokers, ssl: { ca: [kafka.ca] }, sasl, logLevel: logLevel.NOTHING, retry: { retries: 0 } }).admin()
    await (works ? admin.connect() : assert.rejects(admin.connect(), /SASL/))
    await admin.disconnect()
  }
}))

test('a cluster without a test, and what is refused', async () => {
  const kafka = await startCluster({ brokers: 2 })
  try {
    assert.strictEqual(kafka.brokers.length, 2)
    await assert.rejects(kafka.groupWait('no-one', { members: 1, timeout: '50ms' }), (error) => {
      return error instanceof BrokerSimError && error.status === 408 && error.kind === 'WaitTimeout'
    })
    await assert.rejects(kafka.fault({ api: 'OffsetComit', drop: true }), /OffsetCommit/)
    assert.match(await kafka.groupTimelineSvg('billing').catch((error) => error.message), /billing/)
  } finally {
    await kafka.close()
  }
})
