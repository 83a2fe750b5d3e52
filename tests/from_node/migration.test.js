'use strict'

const assert = require('node:assert')
const { test } = require('node:test')
const { Kafka, logLevel } = require('kafkajs')
const { withCluster } = require('broker-sim')

// The lines "after" of docs/migration.md.

test('an order is sent', withCluster({ topics: { orders: 6 } }, async (kafka) => {
  const producer = new Kafka({ brokers: kafka.brokers, logLevel: logLevel.NOTHING }).producer()
  await producer.connect()
  kafka.beforeClose(() => producer.disconnect())
  await producer.send({ topic: 'orders', messages: [{ value: '42' }] })
  const [order] = await kafka.awaitRecords('orders', 1, '10s')
  assert.strictEqual(order.value, '42')
}))
