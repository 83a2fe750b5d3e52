'use strict'

const fs = require('node:fs/promises')
const http = require('node:http')
const https = require('node:https')
const { Operations } = require('./operations.js')
const { find } = require('./server.js')

/** A request to the control server that was refused, or a wait whose deadline passed. */
class BrokerSimError extends Error {
  constructor(status, answer) {
    super(answer.error)
    this.name = 'BrokerSimError'
    this.status = status
    this.kind = answer.kind
    this.nearest = answer.nearest
    this.history = answer.history
    this.kafkaError = answer.kafka_error
  }
}

function plain(value) {
  if (Array.isArray(value)) {
    return value.join(',')
  }
  return typeof value === 'object' && value !== null ? Object.entries(value).map((one) => one.join('=')).join(',') : String(value)
}

function send(server, method, path, params) {
  const inQuery = method === 'GET' || method === 'DELETE'
  const given = Object.entries(params).filter(([, value]) => value !== undefined)
  const query = inQuery ? new URLSearchParams(given.map(([name, value]) => [name, plain(value)])).toString() : ''
  const url = new URL(`${server.url}/v1${path}${query && `?${query}`}`)
  const headers = { 'Content-Type': 'application/json', ...(server.token && { Authorization: `Bearer ${server.token}` }) }
  return new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? https : http).request(url, { method, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part) => { text += part })
      response.on('end', () => resolve({ status: response.statusCode, text })).on('error', reject)
    })
    request.on('error', reject)
    request.end(inQuery ? undefined : JSON.stringify(Object.fromEntries(given)))
  })
}

async function call(server, method, path, params, form) {
  const { status, text } = await send(server, method, path, params)
  if (status >= 400) {
    let answer
    try {
      answer = JSON.parse(text)
    } catch {
      answer = { error: text, kind: 'Unreadable' }
    }
    throw new BrokerSimError(status, answer)
  }
  if (form === 'text') {
    return text
  }
  return form === 'lines' ? text.split('\n').filter(Boolean).map((line) => JSON.parse(line)) : JSON.parse(text)
}

/** A simulated Kafka cluster. */
class SimCluster extends Operations {
  constructor(server, created) {
    super((...what) => call(server, ...what), created.id)
    this.created = created
    this._closing = []
  }

  /** One address for each broker. */
  get brokers() {
    return this.created.bootstrap.split(',')
  }

  /** The addresses in one text. */
  get bootstrap() {
    return this.created.bootstrap
  }

  /** The certificate authority that clients must trust, in PEM; null without TLS. */
  get ca() {
    return this.created.ca
  }

  /** Lets a function run before the cluster stops, as in `kafka.beforeClose(() => consumer.disconnect())`; the last one is the first to run. */
  beforeClose(run) {
    this._closing.push(run)
  }

  /** Stops the cluster. */
  async close() {
    try {
      for (let run = this._closing.pop(); run; run = this._closing.pop()) {
        await run()
      }
    } finally {
      await this.clusterDelete(this.created.id)
    }
  }

  async [Symbol.asyncDispose ?? Symbol.for('asyncDispose')]() {
    await this.close()
  }

  /** Adds a rule on requests. */
  async fault(rule) {
    const { id } = await this.faultAdd(rule)
    return {
      id,
      awaitHits: (hits, timeout) => this.faultWait(id, { hits, timeout }),
      remove: () => this.faultRemove(id)
    }
  }

  /** Runs the steps of a scenario file with the clients of the test: a path, or the name of an included scenario. */
  async startScenario(file, params = {}) {
    const { id } = await this.scenarioStart({ ...params, ...await scenarioFile(file, 'name', 'file') })
    return {
      id,
      awaitStep: (step, timeout) => this.scenarioWait(id, { step, timeout }),
      awaitEnd: (timeout) => this.scenarioWait(id, { timeout }),
      describe: () => this.scenarioGet(id),
      end: () => this.scenarioEnd(id)
    }
  }

  /** Sets a fault state of a log partition: `orders-0`, `offsets(billing)`. */
  async state(log, kind, params = {}) {
    const { states } = await this.stateSet(log, kind, params)
    const { id } = states[states.length - 1]
    return {
      id,
      awaitPending: (pending, timeout) => this.logWait(log, { pending, timeout }),
      heal: () => this.stateHeal(log, { id })
    }
  }

  /** Waits until a topic has so many records, and returns them. */
  async awaitRecords(topic, count, timeout) {
    await this.topicWait(topic, count, { timeout })
    return (await this.topicRecords(topic, { limit: 10_000 })).records
  }

  /** Waits until so many requests were received and answered, and returns them. */
  async awaitRequests(count, params = {}) {
    return (await this.requestWait({ limit: 10_000, answered: true, ...params, count })).requests
  }

  /** Ends the scenarios that are still there, and removes the rules; a failed expectation, and a required rule that never matched, is an error. */
  async endRules() {
    for (const { id } of (await this.scenarioList()).scenarios) {
      await this.scenarioEnd(id)
    }
    for (const { id } of (await this.faultList()).faults) {
      await this.faultRemove(id)
    }
  }
}

/** The parameters for a scenario file: its name and its text; the text of an included one is at the brokers. */
async function scenarioFile(file, name, text) {
  const path = String(file)
  return /[/\\]|\.ya?ml$/.test(path) ? { [name]: path, [text]: await fs.readFile(file, 'utf8') } : { [name]: path }
}

/** Starts a cluster. Groups form at once, and the internal topics exist from the start, unless the options say otherwise. */
async function startCluster(options = {}) {
  const { scenario, ...others } = options
  const server = await find()
  const config = { ...(!scenario && { 'group.initial.rebalance.delay.ms': '0' }), ...options.config }
  const file = scenario ? await scenarioFile(scenario, 'scenario', 'scenario_file') : {}
  const created = await call(server, 'POST', '/clusters', { internal_topics: 'at-start', ...others, ...file, config }, 'json')
  const kafka = new SimCluster(server, created)
  if (scenario) {
    try {
      kafka.scenario = await kafka.startScenario(scenario, { any_settings: true })
    } catch (failure) {
      await kafka.close().catch(() => {})
      throw failure
    }
  }
  return kafka
}

/**
 * Makes the function of a test that gets a cluster of its own: it ends with the test. The error of a test that fails has the history of its
 * groups. A rule that never matched, and a scenario whose expectations failed, fail the test.
 */
function withCluster(options, body) {
  return async (...context) => {
    const kafka = await startCluster(options)
    let value
    try {
      value = await body(kafka, ...context)
      await kafka.endRules()
    } catch (failure) {
      // what goes wrong from here on must not hide the failure
      const { text } = await kafka.journalRecent().catch(() => ({ text: '' }))
      if (text.trim() && failure instanceof Error) {
        failure.message = `${failure.message}\n\n${text}`
      }
      await kafka.close().catch(() => {})
      throw failure
    }
    await kafka.close()
    return value
  }
}

module.exports = { BrokerSimError, SimCluster, startCluster, withCluster }
