/*
 * Driver for kafkajs. The protocol is the one that python/line_protocol.py describes: a JSON object a line, requests on
 * stdin, replies on stdout, the client's log on stderr. kafkajs polls by itself between run() and disconnect().
 */
'use strict'

const fs = require('node:fs')
const readline = require('node:readline')
const { Kafka, logLevel, CompressionTypes, AssignerProtocol, PartitionAssigners } = require('kafkajs')

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { MemberMetadata, MemberAssignment } = AssignerProtocol

/* kafkajs says only at debug level that the broker ended a connection: the matrix wants to know */
const worthTelling = (level, message) => level <= logLevel.WARN || /closed connection/i.test(message)
const logCreator = () => ({ namespace, level, label, log }) => {
  if (worthTelling(level, log.message)) {
    process.stderr.write(`${label} [${namespace}] ${log.message} ${log.error ?? ''}\n`)
  }
}

/* where clients connect to, and as whom; connect() changes it */
let connection = { brokers: process.argv[2].split(','), retry: { initialRetryTime: 50, retries: 10 } }
const kafkaAs = clientId => new Kafka({ clientId, logLevel: logLevel.DEBUG, logCreator, ...connection })

const unsecuredToken = user => {
  const now = Math.floor(Date.now() / 1000)
  const encode = part => Buffer.from(JSON.stringify(part)).toString('base64url')
  return `${encode({ alg: 'none' })}.${encode({ sub: user, iat: now, exp: now + 3600 })}.`
}

const transactionalProducers = {}

/* kafkajs has no range assigner; this is one, by its interface for custom assigners, so that it shares groups with others. */
const rangeAssigner = ({ cluster }) => ({
  name: 'range',
  version: 0, // what kafkajs encodes: later versions carry fields that it does not know
  async assign({ members, topics }) {
    const assignment = new Map(members.map(({ memberId }) => [memberId, {}]))
    for (const topic of topics) {
      const subscribed = members
        .filter(({ memberMetadata }) => MemberMetadata.decode(memberMetadata).topics.includes(topic))
        .map(({ memberId }) => memberId)
        .sort()
      const partitions = cluster.findTopicPartitionMetadata(topic).map(p => p.partitionId).sort((a, b) => a - b)
      const each = Math.floor(partitions.length / subscribed.length)
      const extra = partitions.length % subscribed.length
      subscribed.forEach((memberId, i) => {
        const from = each * i + Math.min(i, extra)
        const mine = partitions.slice(from, from + each + (i < extra ? 1 : 0))
        if (mine.length > 0) assignment.get(memberId)[topic] = mine
      })
    }
    return [...assignment].map(([memberId, mine]) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({ version: this.version, assignment: mine, userData: Buffer.alloc(0) }),
    }))
  },
  protocol({ topics }) {
    return {
      name: this.name,
      metadata: MemberMetadata.encode({ version: this.version, topics, userData: Buffer.alloc(0) }),
    }
  },
})

const assigners = { range: rangeAssigner, roundrobin: PartitionAssigners.roundRobin }
const compressions = { gzip: CompressionTypes.GZIP }

const describe = error => ({ type: error.type ?? error.name, message: String(error.message) })
const flat = memberAssignment =>
  Object.entries(memberAssignment).flatMap(([topic, partitions]) => partitions.map(p => [topic, p]))

class Member {
  constructor(options) {
    this.options = options
    this.owned = []
    this.records = []
    this.assigned = []
    this.revoked = []
    this.errors = []
    this.next = new Map()
  }

  async start() {
    const o = this.options
    this.consumer = kafkaAs(o.member).consumer({
      groupId: o.group,
      partitionAssigners: [assigners[o.strategy]],
      sessionTimeout: o.session_timeout_ms,
      heartbeatInterval: o.heartbeat_interval_ms,
      metadataMaxAge: o.metadata_max_age_ms,
      maxWaitTimeInMs: 100,
      readUncommitted: o.isolation !== 'read_committed',
    })
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.owned = flat(payload.memberAssignment)
      this.assigned.push(this.owned)
    })
    this.consumer.on(this.consumer.events.REBALANCING, () => {
      this.revoked.push(this.owned)
      this.owned = []
      this.next.clear()
    })
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => this.errors.push(describe(payload.error)))
    await this.consumer.connect()
    const topics = o.pattern ? [new RegExp(o.pattern)] : o.topics
    await this.consumer.subscribe({ topics, fromBeginning: o.reset === 'earliest' })
    await this.consumer.run({
      autoCommit: o.auto_commit,
      autoCommitInterval: o.auto_commit_interval_ms,
      eachMessage: async ({ topic, partition, message }) => {
        const offset = Number(message.offset)
        const key = message.key === null ? null : message.key.toString()
        this.records.push([topic, partition, offset, key, message.value.toString(), Number(message.timestamp)])
        this.next.set(`${topic} ${partition}`, [topic, partition, offset + 1, ''])
      },
    })
  }

  state() {
    return {
      assignment: this.owned,
      records: this.records,
      assigned: this.assigned,
      revoked: this.revoked,
      errors: this.errors,
    }
  }

  async commit({ offsets }) {
    const rows = offsets ?? [...this.next.values()]
    await this.consumer.commitOffsets(
      rows.map(([topic, partition, offset, metadata]) => ({ topic, partition, offset: String(offset), metadata }))
    )
  }

  async committed({ partitions }) {
    return committedRows(this.options.group, partitions)
  }

  async seek_timestamp({ partitions, timestamp_ms: timestamp }) {
    const rows = []
    for (const [topic, partition] of partitions) {
      const found = await (await admin()).fetchTopicOffsetsByTimestamp(topic, timestamp)
      const { offset } = found.find(row => row.partition === partition)
      this.consumer.seek({ topic, partition, offset })
      rows.push([topic, partition, Number(offset)])
    }
    return rows
  }

  async leave() {
    await this.consumer.disconnect()
    this.owned = []
  }
}

let connectedAdmin = null
const admin = () => {
  if (connectedAdmin === null) {
    const client = kafkaAs('driver-admin').admin()
    connectedAdmin = client.connect().then(() => client)
  }
  return connectedAdmin
}

async function committedRows(groupId, partitions) {
  const topics = [...new Set(partitions.map(([topic]) => topic))]
  const found = await (await admin()).fetchOffsets({ groupId, topics })
  return partitions.map(([topic, partition]) => {
    const row = found.find(t => t.topic === topic)?.partitions.find(p => p.partition === partition)
    return [topic, partition, row === undefined ? -1 : Number(row.offset), row?.metadata ?? '']
  })
}

const operations = {
  async hello() {
    return { client: 'kafkajs', version: require('kafkajs/package.json').version }
  },
  async connect({ bootstrap, protocol, mechanism, user, password, ca, certificate }) {
    connection = {
      brokers: bootstrap.split(','),
      retry: { initialRetryTime: 50, retries: 4 },
      reauthenticationThreshold: 1000, // before the end of a session; the default, 10 s, is longer than some here
    }
    if (protocol.endsWith('SSL')) {
      const own = certificate && fs.readFileSync(certificate)
      connection.ssl = { ca: [fs.readFileSync(ca)], ...(own && { cert: own, key: own }) }
    }
    if (mechanism === 'OAUTHBEARER') {
      connection.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: unsecuredToken(user) }) }
    } else if (mechanism) {
      connection.sasl = { mechanism: mechanism.toLowerCase(), username: user, password }
    }
    connectedAdmin = null
  },
  async produce({ topic, records, acks = 'all', compression, idempotent = false, may_create: mayCreate = false }) {
    const producer = kafkaAs('driver-producer').producer({
      idempotent,
      allowAutoTopicCreation: mayCreate,
      maxInFlightRequests: idempotent ? 1 : null,
    })
    await producer.connect()
    try {
      const sent = await producer.send({
        topic,
        acks: acks === 'all' ? -1 : Number(acks),
        compression: compressions[compression],
        messages: records.map(({ partition, key, value, timestamp, headers = [] }) => ({
          partition,
          key,
          value,
          timestamp: timestamp === undefined ? undefined : String(timestamp),
          headers: Object.fromEntries(headers),
        })),
      })
      return (sent ?? []).map(({ partition, baseOffset }) => [partition, Number(baseOffset)])
    } finally {
      await producer.disconnect()
    }
  },
  async transactional({ name, transactional_id: transactionalId, timeout_ms: transactionTimeout }) {
    const producer = kafkaAs('driver-transactions').producer({
      transactionalId,
      transactionTimeout,
      idempotent: true,
      maxInFlightRequests: 1,
    })
    await producer.connect()
    // kafkajs asks for a producer id at its first transaction: this one is empty
    await (await producer.transaction()).abort()
    transactionalProducers[name] = { producer }
  },
  async transaction({ name, records, group, offsets = [], end }) {
    const one = transactionalProducers[name]
    one.open ??= await one.producer.transaction()
    for (const { topic, partition, value } of records) {
      await one.open.send({ topic, messages: [{ partition, value }] })
    }
    for (const [topic, partition, offset] of offsets) {
      const topics = [{ topic, partitions: [{ partition, offset: String(offset) }] }]
      await one.open.sendOffsets({ consumerGroupId: group, topics })
    }
    if (end === 'open') return
    const { open } = one
    one.open = undefined
    await (end === 'commit' ? open.commit() : open.abort())
  },
  async create_topic({ topic, partitions, configs = {} }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await (await admin()).createTopics({ topics: [{ topic, numPartitions: partitions, configEntries }] })
  },
  async create_partitions({ topic, total }) {
    await (await admin()).createPartitions({ topicPartitions: [{ topic, count: total }] })
  },
  async delete_records({ topic, partition, before }) {
    // deleteTopicRecords looks into the cached metadata only; this call fetches the topic's
    await (await admin()).fetchTopicOffsets(topic)
    try {
      await (await admin()).deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
    } catch (error) {
      throw error.partitions?.[0]?.error ?? error
    }
  },
  async group_offsets({ group, partitions }) {
    return committedRows(group, partitions)
  },
  async list_groups() {
    const { groups } = await (await admin()).listGroups()
    return groups.map(({ groupId }) => groupId).sort()
  },
  async describe_group({ group: groupId }) {
    const { groups } = await (await admin()).describeGroups([groupId])
    const [group] = groups
    return {
      state: group.state,
      protocol: group.protocol,
      members: group.members.map(({ clientId, memberAssignment }) => ({
        client_id: clientId,
        instance: null,
        assignment: flat(MemberAssignment.decode(memberAssignment)?.assignment ?? {}),
      })),
    }
  },
  async delete_group({ group }) {
    try {
      await (await admin()).deleteGroups([group])
    } catch (error) {
      throw error.groups?.[0]?.error ?? error
    }
  },
}

const members = new Map()

async function perform(request) {
  if (operations[request.op]) return operations[request.op](request)
  if (request.op === 'start') {
    const member = new Member(request)
    members.set(request.member, member)
    return member.start()
  }
  return members.get(request.member)[request.op](request)
}

readline
  .createInterface({ input: process.stdin, crlfDelay: Infinity })
  .on('line', line => {
    const request = JSON.parse(line)
    perform(request).then(
      value => process.stdout.write(`${JSON.stringify({ id: request.id, ok: value ?? null })}\n`),
      error => process.stdout.write(`${JSON.stringify({ id: request.id, error: describe(error) })}\n`)
    )
  })
  .on('close', () => process.exit(0))
