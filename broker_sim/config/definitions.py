"""The settings that a Kafka broker has, as data: names, types, defaults, ranges and the releases that have them.

One setting a line, as in Kafka's ConfigDef (server/config, LogConfig.java), measured from 3.4.0, 4.1.0 and 4.4.0; two
where it has changed:

    name type default [range] [dynamic] [internal] [since=X] [until=X] [was=DEFAULT] [was_min=N]

`-` is null and `""` the empty string. A range is `>=N`, `N..M` or `in:a,b`; `was` and `was_min` are the
default and the least value before 4.0. `dynamic` settings may be altered while the broker runs, `internal` ones
are described only where they are set. A topic's line names
the broker's setting from which it inherits type, range and default, or gives them itself. Of settings of TLS, SASL, tiered storage
and the quorum on which nothing here acts there are the names alone.
"""

from __future__ import annotations

BROKER_SETTINGS = """
add.partitions.to.txn.retry.backoff.max.ms int 100 >=0 since=4.0
add.partitions.to.txn.retry.backoff.ms int 20 >=1 since=4.0
advertised.listeners string - until=4.1
advertised.listeners list - since=4.2
alter.config.policy.class.name class -
authorizer.class.name string ""
auto.create.topics.enable bool true
auto.include.jmx.reporter bool true until=3.9
auto.leader.rebalance.enable bool true
background.threads int 10 >=1 dynamic
broker.heartbeat.interval.ms int 2000
broker.id int -1
broker.id.generation.enable bool true until=3.9
broker.rack string -
broker.session.timeout.ms int 9000
compression.gzip.level int -1 1..9|-1 dynamic since=3.8
compression.lz4.level int 9 1..17 dynamic since=3.8
compression.type string producer in:uncompressed,zstd,lz4,snappy,gzip,producer dynamic
compression.zstd.level int 3 -131072..22 dynamic since=3.8
connection.failed.authentication.delay.ms int 100 >=0
connections.max.idle.ms long 600000
connections.max.reauth.ms long 0
controlled.shutdown.enable bool true
controlled.shutdown.max.retries int 3 until=3.9
controlled.shutdown.retry.backoff.ms long 5000 until=3.9
controller.listener.names string - until=4.1
controller.listener.names list - since=4.2
controller.quota.window.num int 11 >=1
controller.quota.window.size.seconds int 1 >=1
controller.socket.timeout.ms int 30000
create.topic.policy.class.name class -
default.replication.factor int 1
delete.records.purgatory.purge.interval.requests int 1
delete.topic.enable bool true
early.start.listeners string - until=4.1
early.start.listeners list - since=4.2
fetch.max.bytes int 57671680 >=1024
fetch.purgatory.purge.interval.requests int 1000
group.consumer.assignment.interval.ms int 1000 >=0 dynamic since=4.3
group.consumer.assignors list uniform,range since=3.7 was=org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor
group.consumer.heartbeat.interval.ms int 5000 >=1 since=3.7
group.consumer.max.assignment.interval.ms int 15000 >=0 since=4.3
group.consumer.min.assignment.interval.ms int 0 >=0 since=4.3
group.consumer.max.heartbeat.interval.ms int 15000 >=1 since=3.7
group.consumer.max.session.timeout.ms int 60000 >=1 since=3.7
group.consumer.max.size int 2147483647 >=1 since=3.7
group.consumer.regex.refresh.interval.ms int 600000 >=10000 internal since=4.1
group.consumer.migration.policy string bidirectional in:disabled,downgrade,upgrade,bidirectional since=4.0
group.consumer.min.heartbeat.interval.ms int 5000 >=1 since=3.7
group.consumer.min.session.timeout.ms int 45000 >=1 since=3.7
group.consumer.session.timeout.ms int 45000 >=1 since=3.7
group.coordinator.append.linger.ms int 5 >=0 since=4.0 until=4.1
group.coordinator.append.linger.ms int -1 >=-1 since=4.2
group.coordinator.rebalance.protocols list classic,consumer,streams in:consumer,classic,share,streams since=3.7 was=classic
group.coordinator.threads int 4 >=1 since=3.7 was=1
group.initial.rebalance.delay.ms int 3000
group.max.session.timeout.ms int 1800000
group.max.size int 2147483647 >=1
group.min.session.timeout.ms int 6000
errors.deadletterqueue.auto.create.topics.enable bool false dynamic since=4.4
errors.deadletterqueue.topic.name.prefix string dlq. dynamic since=4.4
group.share.assignment.interval.ms int 1000 >=0 dynamic since=4.3
group.share.assignors list simple since=4.1
group.share.delivery.count.limit int 5 2..10 since=4.1
group.share.heartbeat.interval.ms int 5000 >=1 since=4.1
group.share.max.assignment.interval.ms int 15000 >=0 since=4.3
group.share.min.assignment.interval.ms int 0 >=0 since=4.3
group.share.max.delivery.count.limit int 10 2..25 since=4.3
group.share.max.heartbeat.interval.ms int 15000 >=1 since=4.1
group.share.max.partition.max.record.locks int 4000 100..20000 since=4.3
group.share.max.record.lock.duration.ms int 60000 >=1000 since=4.1
group.share.max.session.timeout.ms int 60000 >=1 since=4.1
group.share.max.share.sessions int 2000 >=1 since=4.1
group.share.max.size int 200 10..1000 since=4.1
group.share.min.delivery.count.limit int 2 2..5 since=4.3
group.share.min.heartbeat.interval.ms int 5000 >=1 since=4.1
group.share.min.partition.max.record.locks int 100 >=100 since=4.3
group.share.min.record.lock.duration.ms int 15000 1000..30000 since=4.1
group.share.min.session.timeout.ms int 45000 >=1 since=4.1
group.share.partition.max.record.locks int 2000 100..10000 since=4.1
group.share.record.lock.duration.ms int 30000 1000..3600000 since=4.1
group.share.session.timeout.ms int 45000 >=1 since=4.1
group.streams.acceptable.recovery.lag long 10000 >=0 internal since=4.4
group.streams.assignment.interval.ms int 1000 >=0 dynamic since=4.3
group.streams.assignors list sticky since=4.4
group.streams.heartbeat.interval.ms int 5000 >=1 since=4.1
group.streams.initial.rebalance.delay.ms int 3000 >=0 since=4.2
group.streams.max.assignment.interval.ms int 15000 >=0 since=4.3
group.streams.max.heartbeat.interval.ms int 15000 >=1 since=4.1
group.streams.max.session.timeout.ms int 60000 >=1 since=4.1
group.streams.max.size int 2147483647 >=1 since=4.1
group.streams.max.standby.replicas int 2 >=0 since=4.1
group.streams.max.warmup.replicas int 20 >=0 internal since=4.4
group.streams.min.assignment.interval.ms int 0 >=0 since=4.3
group.streams.min.heartbeat.interval.ms int 5000 >=1 since=4.1
group.streams.min.session.timeout.ms int 45000 >=1 since=4.1
group.streams.min.task.offset.interval.ms int 15000 >=1 internal since=4.4
group.streams.num.standby.replicas int 0 >=0 since=4.1
group.streams.num.warmup.replicas int 2 >=0 internal since=4.4
group.streams.rack.aware.assignment.tags list "" since=4.4
group.streams.session.timeout.ms int 45000 >=1 since=4.1
group.streams.task.offset.interval.ms int 60000 >=1 internal since=4.4
group.streams.topology.description.plugin.class class - since=4.4
initial.broker.registration.timeout.ms int 60000
inter.broker.listener.name string -
inter.broker.protocol.version string - until=3.9
leader.imbalance.check.interval.seconds long 300 >=1
leader.imbalance.per.broker.percentage int 10 until=3.9
listener.security.protocol.map string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT dynamic
listeners string PLAINTEXT://:9092 dynamic until=4.1
listeners list PLAINTEXT://:9092 dynamic since=4.2
log.cleaner.backoff.ms long 15000 >=0 dynamic
log.cleaner.dedupe.buffer.size long 134217728 dynamic
log.cleaner.delete.retention.ms long 86400000 >=0 dynamic
log.cleaner.enable bool true
log.cleaner.io.buffer.load.factor double 0.9 dynamic
log.cleaner.io.buffer.size int 524288 >=0 dynamic
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 dynamic
log.cleaner.max.compaction.lag.ms long 9223372036854775807 >=1 dynamic
log.cleaner.min.cleanable.ratio double 0.5 0..1 dynamic
log.cleaner.min.compaction.lag.ms long 0 >=0 dynamic
log.cleaner.threads int 1 >=0 dynamic
log.cleanup.policy list delete in:compact,delete dynamic
log.dir string /tmp/kafka-logs until=4.1
log.dir list /tmp/kafka-logs since=4.2
log.dir.failure.timeout.ms long 30000 >=1 since=3.7
log.dirs string - until=4.1
log.dirs list - since=4.2
log.flush.interval.messages long 9223372036854775807 >=1 dynamic
log.flush.interval.ms long - dynamic
log.flush.offset.checkpoint.interval.ms int 60000 >=0
log.flush.scheduler.interval.ms long 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int 60000 >=0
log.index.interval.bytes int 4096 >=0 dynamic
log.index.size.max.bytes int 10485760 >=4 dynamic
log.initial.task.delay.ms long 30000 >=0 internal since=3.8
log.local.retention.bytes long -2 >=-2 dynamic since=3.6
log.local.retention.ms long -2 >=-2 dynamic since=3.6
log.message.downconversion.enable bool true dynamic until=3.9
log.message.format.version string 3.0-IV1 until=3.9
log.message.timestamp.after.max.ms long 3600000 >=0 dynamic since=3.6 was=9223372036854775807
log.message.timestamp.before.max.ms long 9223372036854775807 >=0 dynamic since=3.6
log.message.timestamp.difference.max.ms long 9223372036854775807 >=0 dynamic until=3.9
log.message.timestamp.type string CreateTime in:CreateTime,LogAppendTime dynamic
log.preallocate bool false dynamic
log.remote.copy.lag.bytes long -1 >=-1 dynamic since=4.4
log.remote.copy.lag.ms long 0 >=-1 dynamic since=4.4
log.retention.bytes long -1 dynamic
log.retention.check.interval.ms long 300000 >=1
log.retention.hours int 168
log.retention.minutes int -
log.retention.ms long - dynamic
log.roll.hours int 168 >=1
log.roll.jitter.hours int 0 >=0
log.roll.jitter.ms long - dynamic
log.roll.ms long - dynamic
log.segment.bytes int 1073741824 >=1048576 was_min=14 dynamic
log.segment.delete.delay.ms long 60000 >=0 dynamic
max.connection.creation.rate int 2147483647 >=0 dynamic
max.connections int 2147483647 >=0 dynamic
max.connections.per.ip int 2147483647 >=0 dynamic
max.connections.per.ip.overrides string "" dynamic
max.decompressed.message.bytes int 2147483639 1..2147483639 dynamic since=4.4
max.incremental.fetch.session.cache.slots int 1000 >=0
max.request.partition.size.limit int 2000 >=1 since=3.8
message.max.bytes int 1048588 >=0 dynamic
min.insync.replicas int 1 >=1 dynamic
node.id int - was=-1
num.io.threads int 8 >=1 dynamic
num.network.threads int 3 >=1 dynamic
num.partitions int 1 >=1
num.recovery.threads.per.data.dir int 2 >=1 dynamic was=1
num.replica.alter.log.dirs.threads int -
num.replica.fetchers int 1 dynamic
offset.metadata.max.bytes int 4096
offsets.commit.required.acks short -1 until=3.9
offsets.commit.timeout.ms int 5000 >=1
offsets.load.buffer.size int 5242880 >=1
offsets.retention.check.interval.ms long 600000 >=1
offsets.retention.minutes int 10080 >=1
offsets.topic.compression.codec int 0 0..4
offsets.topic.num.partitions int 50 >=1
offsets.topic.replication.factor short 3 >=1
offsets.topic.segment.bytes int 104857600 >=1
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic
process.roles list - in:broker,controller
producer.id.expiration.check.interval.ms int 600000 >=1 internal
producer.id.expiration.ms int 86400000 >=1 dynamic
producer.purgatory.purge.interval.requests int 1000
queued.max.request.bytes long -1
queued.max.requests int 500 >=1
quota.window.num int 11 >=1
quota.window.size.seconds int 1 >=1
replica.fetch.backoff.ms int 1000 >=0
replica.fetch.max.bytes int 1048576 >=0
replica.fetch.min.bytes int 1
replica.fetch.response.max.bytes int 10485760 >=0
replica.fetch.wait.max.ms int 500
replica.high.watermark.checkpoint.interval.ms long 5000
replica.lag.time.max.ms long 30000
replica.selector.class string - in:org.apache.kafka.common.replica.RackAwareReplicaSelector
replica.socket.receive.buffer.bytes int 65536
replica.socket.timeout.ms int 30000
replication.quota.window.num int 11 >=1
replication.quota.window.size.seconds int 1 >=1
request.timeout.ms int 30000
reserved.broker.max.id int 1000 >=0 until=3.9
sasl.enabled.mechanisms list GSSAPI dynamic
security.inter.broker.protocol string PLAINTEXT in:PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL
share.coordinator.append.linger.ms int 5 >=0 since=4.1 until=4.1
share.coordinator.append.linger.ms int -1 >=-1 since=4.2
share.coordinator.load.buffer.size int 5242880 >=1 since=4.1
share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 since=4.1
share.coordinator.state.topic.compression.codec int 0 0..4 since=4.1
share.coordinator.state.topic.min.isr short 2 >=1 since=4.1
share.coordinator.state.topic.num.partitions int 50 >=1 since=4.1
share.coordinator.state.topic.replication.factor short 3 >=1 since=4.1
share.coordinator.state.topic.segment.bytes int 104857600 >=1 since=4.1
share.coordinator.threads int 1 >=1 since=4.1
share.coordinator.write.timeout.ms int 5000 >=1 since=4.1
share.fetch.purgatory.purge.interval.requests int 1000 since=4.1
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
socket.listen.backlog.size int 50 >=1
socket.receive.buffer.bytes int 102400
socket.request.max.bytes int 104857600 >=1
socket.send.buffer.bytes int 102400
ssl.client.auth string none in:required,requested,none dynamic
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 >=1
transaction.max.timeout.ms int 900000 >=1
transaction.partition.verification.enable bool true dynamic since=3.5
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 >=1
transaction.state.log.load.buffer.size int 5242880 >=1
transaction.state.log.min.isr int 2 >=1
transaction.state.log.num.partitions int 50 >=1
transaction.state.log.replication.factor short 3 >=1
transaction.state.log.segment.bytes int 104857600 >=1
transaction.two.phase.commit.enable bool false since=4.1
transactional.id.expiration.ms int 604800000 >=1
unclean.leader.election.enable bool false dynamic
"""  # noqa: E501 - a class name of Kafka's is as long as it is

TOPIC_SETTINGS = """
cleanup.policy log.cleanup.policy
compression.gzip.level compression.gzip.level
compression.lz4.level compression.lz4.level
compression.type compression.type
compression.zstd.level compression.zstd.level
delete.retention.ms log.cleaner.delete.retention.ms
file.delete.delay.ms log.segment.delete.delay.ms
errors.deadletterqueue.group.enable - bool false since=4.4
flush.messages log.flush.interval.messages
flush.ms log.flush.interval.ms >=0 default=9223372036854775807
follower.replication.throttled.replicas - list ""
index.interval.bytes log.index.interval.bytes
leader.replication.throttled.replicas - list ""
local.retention.bytes log.local.retention.bytes
local.retention.ms log.local.retention.ms
max.compaction.lag.ms log.cleaner.max.compaction.lag.ms
max.decompressed.message.bytes max.decompressed.message.bytes
max.message.bytes message.max.bytes
message.downconversion.enable log.message.downconversion.enable
message.format.version log.message.format.version
message.timestamp.after.max.ms log.message.timestamp.after.max.ms
message.timestamp.before.max.ms log.message.timestamp.before.max.ms
message.timestamp.difference.max.ms log.message.timestamp.difference.max.ms
message.timestamp.type log.message.timestamp.type
min.cleanable.dirty.ratio log.cleaner.min.cleanable.ratio
min.compaction.lag.ms log.cleaner.min.compaction.lag.ms
min.insync.replicas min.insync.replicas
preallocate log.preallocate
remote.copy.lag.bytes log.remote.copy.lag.bytes
remote.copy.lag.ms log.remote.copy.lag.ms
remote.log.copy.disable - bool false since=3.9
remote.log.delete.on.disable - bool false since=3.9
remote.storage.enable - bool false since=3.6
retention.bytes log.retention.bytes
retention.ms log.retention.ms >=-1 default=604800000
segment.bytes log.segment.bytes
segment.index.bytes log.index.size.max.bytes
segment.jitter.ms log.roll.jitter.ms >=0 default=0
segment.ms log.roll.ms >=1 default=604800000
unclean.leader.election.enable unclean.leader.election.enable
"""

OTHER_SETTINGS = """
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds client.quota.callback.class
config.providers control.plane.listener.name controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters cordoned.log.dirs delegation.token.expiry.check.interval.ms
delegation.token.expiry.time.ms delegation.token.master.key delegation.token.max.lifetime.ms delegation.token.secret.key
follower.fetch.last.tiered.offset.enable group.consumer.assignor.offload.enable
group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes group.share.assignor.offload.enable
group.share.dlq.manager.class.name group.share.enable group.share.initialize.retry.interval.ms group.share.persister.class.name
group.streams.assignor.offload.enable
internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
internal.metadata.max.fetch.size.in.bytes kafka.metrics.polling.interval.secs kafka.metrics.reporters metadata.log.dir
metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
metadata.log.segment.min.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
password.encoder.old.secret password.encoder.secret remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
remote.log.reader.max.pending.tasks remote.log.reader.threads remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.mechanism.inter.broker.protocol sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
sasl.server.callback.handler.class sasl.server.max.receive.size security.providers server.max.startup.time.ms
share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
share.coordinator.state.topic.prune.interval.ms ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites ssl.enabled.protocols
ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
ssl.principal.mapping.rules ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type telemetry.max.bytes
unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable zookeeper.clientCnxnSocket
zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
zookeeper.session.timeout.ms zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable zookeeper.ssl.crl.enable
zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol
zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
"""
"""The names of all other settings that one release or another has: of TLS, SASL, tiered storage, metrics, ZooKeeper, the quorum."""

DOCS = {
    "add.partitions.to.txn.retry.backoff.max.ms": "How long a batch waits for the transaction coordinator to take its partition.",
    "add.partitions.to.txn.retry.backoff.ms": "Pause before the transaction coordinator is asked again for a partition.",
    "advertised.listeners": "Addresses that clients of each listener receive: NAME://HOST:PORT,...; of several brokers the "
    "others have the next ports.",
    "auto.create.topics.enable": "A Metadata request for a topic that does not exist creates it.",
    "auto.leader.rebalance.enable": "Whether preferred replicas that are back lead again.",
    "broker.id": "The node id of the first broker; the others have the next ones.",
    "broker.rack": "The rack of the brokers.",
    "connection.failed.authentication.delay.ms": "How long the answer to a failed authentication is delayed.",
    "connections.max.idle.ms": "A connection on which nothing arrived for this long is closed.",
    "connections.max.reauth.ms": "How long a SASL session lasts before the client has to authenticate again; 0: for ever.",
    "controller.listener.names": "Which of the listeners are the controller's: brokers don't listen on them.",
    "default.replication.factor": "Replicas of a topic that is created without a number of its own.",
    "delete.topic.enable": "DeleteTopics is refused where this is false.",
    "errors.deadletterqueue.auto.create.topics.enable": "Whether the topic of a share group's dead letter queue is created.",
    "errors.deadletterqueue.topic.name.prefix": "What the name of a topic must begin with to be a dead letter queue.",
    "fetch.max.bytes": "The most that one Fetch answer carries, whatever the consumer asks for.",
    "group.consumer.assignment.interval.ms": "The shortest time between two assignments of a consumer group.",
    "group.consumer.assignors": "Assignors that the members of consumer groups may name; the first one is the default.",
    "group.consumer.heartbeat.interval.ms": "The heartbeat interval that members of consumer groups are given.",
    "group.consumer.max.assignment.interval.ms": "The longest consumer.assignment.interval.ms of a group.",
    "group.consumer.max.heartbeat.interval.ms": "The longest consumer.heartbeat.interval.ms of a group.",
    "group.consumer.max.session.timeout.ms": "The longest consumer.session.timeout.ms of a group.",
    "group.consumer.max.size": "The most members of a consumer group.",
    "group.consumer.migration.policy": "Which groups change between the classic and the consumer protocol.",
    "group.consumer.min.assignment.interval.ms": "The shortest consumer.assignment.interval.ms of a group.",
    "group.consumer.min.heartbeat.interval.ms": "The shortest consumer.heartbeat.interval.ms of a group.",
    "group.consumer.min.session.timeout.ms": "The shortest consumer.session.timeout.ms of a group.",
    "group.consumer.regex.refresh.interval.ms": "How often the topics of regular expressions are looked for again.",
    "group.consumer.session.timeout.ms": "How long a member of a consumer group may send no heartbeat.",
    "group.coordinator.rebalance.protocols": "The kinds of groups that the coordinator serves.",
    "group.initial.rebalance.delay.ms": "How long the first rebalance of an empty group waits for more members.",
    "group.max.session.timeout.ms": "The longest session timeout that a member may ask for.",
    "group.max.size": "The most members that one group may have.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member may ask for.",
    "group.share.assignment.interval.ms": "The shortest time between two assignments of a share group.",
    "group.share.delivery.count.limit": "How often a share group delivers a record.",
    "group.share.heartbeat.interval.ms": "The heartbeat interval that members of share groups are given.",
    "group.share.max.assignment.interval.ms": "The longest share.assignment.interval.ms of a group.",
    "group.share.max.delivery.count.limit": "The highest share.delivery.count.limit of a group.",
    "group.share.max.heartbeat.interval.ms": "The longest share.heartbeat.interval.ms of a group.",
    "group.share.max.partition.max.record.locks": "The highest share.partition.max.record.locks of a group.",
    "group.share.max.record.lock.duration.ms": "The longest share.record.lock.duration.ms of a group.",
    "group.share.max.session.timeout.ms": "The longest share.session.timeout.ms of a group.",
    "group.share.max.share.sessions": "The most share sessions of a broker.",
    "group.share.max.size": "The most members of a share group.",
    "group.share.min.assignment.interval.ms": "The shortest share.assignment.interval.ms of a group.",
    "group.share.min.delivery.count.limit": "The lowest share.delivery.count.limit of a group.",
    "group.share.min.heartbeat.interval.ms": "The shortest share.heartbeat.interval.ms of a group.",
    "group.share.min.partition.max.record.locks": "The lowest share.partition.max.record.locks of a group.",
    "group.share.min.record.lock.duration.ms": "The shortest share.record.lock.duration.ms of a group.",
    "group.share.min.session.timeout.ms": "The shortest share.session.timeout.ms of a group.",
    "group.share.partition.max.record.locks": "The most records of a partition that a share group has in flight.",
    "group.share.record.lock.duration.ms": "How long a member of a share group may keep a record without acknowledging it.",
    "group.share.session.timeout.ms": "How long a member of a share group may send no heartbeat.",
    "group.streams.acceptable.recovery.lag": "The lag up to which members of streams groups count as caught up.",
    "group.streams.assignment.interval.ms": "The shortest time between two assignments of a streams group.",
    "group.streams.heartbeat.interval.ms": "The heartbeat interval that members of streams groups are given.",
    "group.streams.initial.rebalance.delay.ms": "How long the first assignment of an empty streams group waits for more members.",
    "group.streams.max.assignment.interval.ms": "The longest streams.assignment.interval.ms of a group.",
    "group.streams.max.heartbeat.interval.ms": "The longest streams.heartbeat.interval.ms of a group.",
    "group.streams.max.session.timeout.ms": "The longest streams.session.timeout.ms of a group.",
    "group.streams.max.size": "The most members of a streams group.",
    "group.streams.max.standby.replicas": "The most standby replicas of a streams group.",
    "group.streams.max.warmup.replicas": "The greatest streams.num.warmup.replicas of a group.",
    "group.streams.min.assignment.interval.ms": "The shortest streams.assignment.interval.ms of a group.",
    "group.streams.min.heartbeat.interval.ms": "The shortest streams.heartbeat.interval.ms of a group.",
    "group.streams.min.session.timeout.ms": "The shortest streams.session.timeout.ms of a group.",
    "group.streams.min.task.offset.interval.ms": "The shortest streams.task.offset.interval.ms of a group.",
    "group.streams.num.standby.replicas": "Standby replicas of each stateful task in streams groups.",
    "group.streams.rack.aware.assignment.tags": "Tags of the clients by which standby replicas are spread.",
    "group.streams.session.timeout.ms": "How long a member of a streams group may send no heartbeat.",
    "group.streams.task.offset.interval.ms": "How often members of streams groups are asked for changelog offsets.",
    "leader.imbalance.check.interval.seconds": "Pause between two looks for preferred replicas that do not lead.",
    "log.cleaner.backoff.ms": "Pause between two looks for logs to compact.",
    "log.cleaner.delete.retention.ms": "How long compaction keeps a tombstone.",
    "log.cleaner.enable": "Logs with the compact policy are compacted where this is true.",
    "log.cleaner.max.compaction.lag.ms": "A log with a dirty record older than this is compacted whatever its dirty share.",
    "listener.security.protocol.map": "The security protocol of each listener: PLAINTEXT, and one other at most.",
    "listeners": "All addresses that the brokers listen on: NAME://HOST:PORT,...; of several brokers the others have the next ports.",
    "log.cleaner.min.cleanable.ratio": "Share of a log that must be dirty before it is compacted.",
    "log.cleaner.min.compaction.lag.ms": "A record younger than this is not compacted away.",
    "log.cleanup.policy": "What happens to old segments: delete, compact or both.",
    "log.index.interval.bytes": "Bytes of log between two entries of the offset index.",
    "log.index.size.max.bytes": "Size at which an index is full and its segment rolls.",
    "log.initial.task.delay.ms": "When log retention first looks for segments to delete, counted from the start.",
    "log.message.timestamp.after.max.ms": "How far ahead of the broker's clock a record's timestamp may be.",
    "log.message.timestamp.before.max.ms": "How far behind the broker's clock a record's timestamp may be.",
    "log.message.timestamp.difference.max.ms": "How far from the broker's clock a record's timestamp may be.",
    "log.message.timestamp.type": "CreateTime keeps the producer's timestamps, LogAppendTime replaces them.",
    "log.retention.bytes": "Size of a partition above which its oldest segments are deleted; -1 for no limit.",
    "log.retention.check.interval.ms": "Pause between two looks for segments to delete.",
    "log.retention.hours": "Age at which a segment is deleted; log.retention.minutes and log.retention.ms come before it.",
    "log.retention.minutes": "Age at which a segment is deleted; log.retention.ms comes before it.",
    "log.retention.ms": "Age at which a segment is deleted; -1 for never.",
    "log.roll.hours": "Age at which the active segment is closed; log.roll.ms comes before it.",
    "log.roll.ms": "Age at which the active segment is closed.",
    "log.segment.bytes": "Size at which the active segment is closed and a new one begins.",
    "max.connections": "Connections that a broker serves; the next ones wait, and nothing that they send is read.",
    "max.connections.per.ip": "Connections from one address; the next ones are closed at once.",
    "max.connections.per.ip.overrides": "The same for single addresses: 127.0.0.1:5,10.0.0.7:100.",
    "max.incremental.fetch.session.cache.slots": "How many incremental fetch sessions a broker holds.",
    "max.request.partition.size.limit": "The most partitions that one DescribeTopicPartitions answer carries.",
    "message.max.bytes": "The largest record batch that a producer may write.",
    "min.insync.replicas": "In-sync replicas that a write with acks=all needs.",
    "node.id": "The node id of the first broker; the others have the next ones.",
    "num.partitions": "Partitions of a topic that is created without a number of its own.",
    "offset.metadata.max.bytes": "The longest metadata string that a committed offset may carry.",
    "offsets.commit.timeout.ms": "How long a commit waits until the offsets log has it.",
    "offsets.retention.check.interval.ms": "Pause between two looks for committed offsets to expire.",
    "offsets.retention.minutes": "How long the committed offsets of an empty group are kept.",
    "offsets.topic.num.partitions": "Partitions of the log of committed offsets, set when it is created.",
    "offsets.topic.replication.factor": "Replicas of the log of committed offsets, set when it is created.",
    "offsets.topic.segment.bytes": "Segment size of the log of committed offsets.",
    "producer.id.expiration.check.interval.ms": "Pause between two looks for idle producers, counted from each log's opening.",
    "producer.id.expiration.ms": "How long an idle producer's sequence numbers are remembered.",
    "replica.selector.class": "RackAwareReplicaSelector: a consumer with client.rack is referred to a replica in its rack.",
    "request.timeout.ms": "How long the transaction coordinator waits for a write of its log.",
    "sasl.enabled.mechanisms": "Mechanisms of a SASL listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
    "share.coordinator.snapshot.update.records.per.snapshot": "Updates of a share partition's state between two snapshots.",
    "share.coordinator.state.topic.min.isr": "min.insync.replicas of the log of share groups' states, set when it is created.",
    "share.coordinator.state.topic.num.partitions": "Partitions of the log of share groups' states, set when it is created.",
    "share.coordinator.state.topic.replication.factor": "Replicas of the log of share groups' states, set when it is created.",
    "share.coordinator.state.topic.segment.bytes": "Segment size of the log of share groups' states.",
    "share.coordinator.write.timeout.ms": "How long a write of a share group's state waits for the log.",
    "socket.request.max.bytes": "The largest request that a connection may send.",
    "ssl.client.auth": "Whether clients of a TLS listener must have a certificate.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "Pause between two looks for transactions to abort.",
    "transaction.max.timeout.ms": "The longest transaction timeout that a producer may ask for.",
    "transaction.partition.verification.enable": "Whether the transaction coordinator is asked about an older client's batches.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "Pause between two looks for transactional ids to expire.",
    "transaction.state.log.min.isr": "min.insync.replicas of the log of transactions, set when it is created.",
    "transaction.state.log.num.partitions": "Partitions of the log of transactions, set when it is created.",
    "transaction.state.log.replication.factor": "Replicas of the log of transactions, set when it is created.",
    "transaction.state.log.segment.bytes": "Segment size of the log of transactions.",
    "transactional.id.expiration.ms": "How long an idle transactional id is remembered.",
    "unclean.leader.election.enable": "Whether a replica that is out of sync may lead.",
}
"""Effects of the settings on which the broker acts. The others are kept and shown, and have no effect."""
