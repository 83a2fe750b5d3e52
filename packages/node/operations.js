'use strict'

// Written by docs/generate.py from docs/openapi.json.

const encode = encodeURIComponent

/** Every operation of the control server on a cluster. */
class Operations {
  /**
   * @param {(method: string, path: string, params: object, form: string) => Promise<any>} call
   * @param {string} id of the cluster
   */
  constructor(call, id) {
    this._call = call
    this._cluster = `/clusters/${encode(id)}`
  }

  /** List all brokers: address, rack, whether they are alive, number of led partitions. */
  brokerList(params = {}) {
    return this._call('GET', `${this._cluster}/brokers`, params, 'json')
  }

  /** Show a broker: address, rack, whether it is alive, number of led partitions. */
  brokerGet(broker, params = {}) {
    return this._call('GET', `${this._cluster}/brokers/${encode(broker)}`, params, 'json')
  }

  /** Stop a broker: connections are reset, other replicas become leaders; it keeps its port. */
  brokerDown(broker, params = {}) {
    return this._call('POST', `${this._cluster}/brokers/${encode(broker)}/down`, params, 'json')
  }

  /** Start a stopped broker on the same port. */
  brokerUp(broker, params = {}) {
    return this._call('POST', `${this._cluster}/brokers/${encode(broker)}/up`, params, 'json')
  }

  /** Restart a broker; its coordinators load from their logs. */
  brokerRestart(broker, params = {}) {
    return this._call('POST', `${this._cluster}/brokers/${encode(broker)}/restart`, params, 'json')
  }

  /** Advertise another address of a broker, as Kafka's advertised.listeners, from the next response on. */
  brokerAdvertise(broker, listener, params = {}) {
    return this._call('POST', `${this._cluster}/brokers/${encode(broker)}/advertise`, { ...params, listener }, 'json')
  }

  /** Restart all brokers at the same time; every coordinator loads from its log. */
  brokerRestartAll(params = {}) {
    return this._call('POST', `${this._cluster}/brokers/restart`, params, 'json')
  }

  /** Show the brokers' clock: mode, rate, time, next timer. */
  clockGet(params = {}) {
    return this._call('GET', `${this._cluster}/clock`, params, 'json')
  }

  /** Advance a manual clock: each timer fires at its deadline; connected members not named in expire stay alive. */
  clockAdvance(by, params = {}) {
    return this._call('POST', `${this._cluster}/clock/advance`, { ...params, by }, 'json')
  }

  /** List the virtual clusters of the process. */
  clusterList(params = {}) {
    return this._call('GET', `/clusters`, params, 'json')
  }

  /** Start a virtual cluster on its own ports; of a scenario, parameters that are not their defaults replace the file's. */
  clusterCreate(params = {}) {
    return this._call('POST', `/clusters`, params, 'json')
  }

  /** Show a virtual cluster: bootstrap address, release, clock, topics. */
  clusterGet(cluster, params = {}) {
    return this._call('GET', `/clusters/${encode(cluster)}`, params, 'json')
  }

  /** Stop a virtual cluster; the cluster that the process was started for can't be stopped. */
  clusterDelete(cluster, params = {}) {
    return this._call('DELETE', `/clusters/${encode(cluster)}`, params, 'json')
  }

  /** List all groups with their states and members. */
  groupList(params = {}) {
    return this._call('GET', `${this._cluster}/groups`, params, 'json')
  }

  /** Show a group: state, generation, members with assignments, offsets, lag; with a condition, once it holds. */
  groupGet(group, params = {}) {
    return this._call('GET', `${this._cluster}/groups/${encode(group)}`, params, 'json')
  }

  /** Wait until all conditions hold for a group at the same time; the group may not exist yet. */
  groupWait(group, params = {}) {
    return this._call('GET', `${this._cluster}/groups/${encode(group)}/wait`, params, 'json')
  }

  /** Explain in words why a group rebalanced, who delayed it, for how long, and how it ended. */
  groupExplain(group, params = {}) {
    return this._call('GET', `${this._cluster}/groups/${encode(group)}/explain`, params, 'json')
  }

  /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
  groupTimeline(group, params = {}) {
    return this._call('GET', `${this._cluster}/groups/${encode(group)}/timeline`, params, 'json')
  }

  /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
  groupTimelineSvg(group, params = {}) {
    return this._call('GET', `${this._cluster}/groups/${encode(group)}/timeline.svg`, params, 'text')
  }

  /** Draw a group's history: members as lanes, generations as bands, faults as marks. */
  groupTimelineHtml(group, params = {}) {
    return this._call('GET', `${this._cluster}/groups/${encode(group)}/timeline.html`, params, 'text')
  }

  /** Wait for the next successful commit of a group; returns its offsets. */
  groupCommit(group, params = {}) {
    return this._call('GET', `${this._cluster}/groups/${encode(group)}/commit`, params, 'json')
  }

  /** Check whether the group's coordinator accepts commits now, without affecting the group. */
  groupProbe(group, params = {}) {
    return this._call('POST', `${this._cluster}/groups/${encode(group)}/probe`, params, 'json')
  }

  /** Remove a member from its group with LeaveGroup, as an admin client does. */
  groupRemoveMember(group, member, params = {}) {
    return this._call('DELETE', `${this._cluster}/groups/${encode(group)}/members/${encode(member)}`, params, 'json')
  }

  /** Show a share group: position in each partition, records left, and acquired records with their members. */
  shareGet(group, params = {}) {
    return this._call('GET', `${this._cluster}/share-groups/${encode(group)}`, params, 'json')
  }

  /** Expire acquisition locks of a share group now: all, or those of a topic, a partition or a member. */
  shareExpire(group, params = {}) {
    return this._call('POST', `${this._cluster}/share-groups/${encode(group)}/expire`, params, 'json')
  }

  /** Wait until a member of a share group has acquired a record; the group may not exist yet. */
  shareWaitLocked(group, topic, partition, offset, params = {}) {
    return this._call('GET', `${this._cluster}/share-groups/${encode(group)}/locked`, { ...params, topic, partition, offset }, 'json')
  }

  /** Wait until no member of a share group has an acquired record. */
  shareWaitUnlocked(group, params = {}) {
    return this._call('GET', `${this._cluster}/share-groups/${encode(group)}/unlocked`, params, 'json')
  }

  /** Wait until a record was delivered this often to a share group; the group may not exist yet. */
  shareWaitDelivered(group, topic, partition, offset, params = {}) {
    return this._call('GET', `${this._cluster}/share-groups/${encode(group)}/delivered`, { ...params, topic, partition, offset }, 'json')
  }

  /** List the recorded deliveries of a record: to which member, and how each ended. */
  shareDeliveries(group, topic, partition, offset, params = {}) {
    return this._call('GET', `${this._cluster}/share-groups/${encode(group)}/deliveries`, { ...params, topic, partition, offset }, 'json')
  }

  /** List all transactional ids with their states, producer ids and epochs. */
  transactionList(params = {}) {
    return this._call('GET', `${this._cluster}/transactions`, params, 'json')
  }

  /** Show a transactional id: state, producer id, epoch, and the partitions that have no marker yet. */
  transactionGet(transactionalId, params = {}) {
    return this._call('GET', `${this._cluster}/transactions/${encode(transactionalId)}`, params, 'json')
  }

  /** Wait until all conditions hold for a transactional id at the same time; it may not exist yet. */
  transactionWait(transactionalId, params = {}) {
    return this._call('GET', `${this._cluster}/transactions/${encode(transactionalId)}/wait`, params, 'json')
  }

  /** Explain in words how the transactions of an id ended, by whom, how long each took, and what it delayed. */
  transactionExplain(transactionalId, params = {}) {
    return this._call('GET', `${this._cluster}/transactions/${encode(transactionalId)}/explain`, params, 'json')
  }

  /** Fence the producer of a transactional id, and abort its transaction, as Admin.fenceProducers does. */
  transactionAbort(transactionalId, params = {}) {
    return this._call('POST', `${this._cluster}/transactions/${encode(transactionalId)}/abort`, params, 'json')
  }

  /** List hanging transactions of a partition: open, and unknown to the transaction coordinator. */
  transactionHanging(params = {}) {
    return this._call('GET', `${this._cluster}/hanging-transactions`, params, 'json')
  }

  /** Write an abort marker for a producer's open transaction in a partition, as kafka-transactions abort does. */
  transactionAbortHanging(log, producerId, params = {}) {
    return this._call('POST', `${this._cluster}/logs/${encode(log)}/transactions/${encode(producerId)}/abort`, params, 'json')
  }

  /** List events, oldest first; over HTTP one JSON object per line. */
  journalRead(params = {}) {
    return this._call('GET', `${this._cluster}/journal`, params, 'lines')
  }

  /** Wait for the first matching event and return it; the event of an answered request contains the response. */
  journalNext(params = {}) {
    return this._call('GET', `${this._cluster}/journal/next`, params, 'json')
  }

  /** Describe the recent history of every group, refused clients and unanswered requests: for a failed test's report. */
  journalRecent(params = {}) {
    return this._call('GET', `${this._cluster}/journal/recent`, params, 'json')
  }

  /** Write a note into the journal; timelines show it. */
  journalMark(text, params = {}) {
    return this._call('POST', `${this._cluster}/journal/marks`, { ...params, text }, 'json')
  }

  /** Set a fault state of a log partition; its leader and its group coordinator behave accordingly until it is cleared. */
  stateSet(log, state, params = {}) {
    return this._call('PUT', `${this._cluster}/logs/${encode(log)}/state`, { ...params, state }, 'json')
  }

  /** Clear the fault states of a log partition; pending requests continue. */
  stateHeal(log, params = {}) {
    return this._call('DELETE', `${this._cluster}/logs/${encode(log)}/state`, params, 'json')
  }

  /** List the active fault states of all log partitions. */
  stateList(params = {}) {
    return this._call('GET', `${this._cluster}/states`, params, 'json')
  }

  /** Show a log partition: leader, replicas, offsets, fault states. */
  logGet(log, params = {}) {
    return this._call('GET', `${this._cluster}/logs/${encode(log)}`, params, 'json')
  }

  /** Append records to a partition, as a producer does. */
  logFill(log, records, params = {}) {
    return this._call('POST', `${this._cluster}/logs/${encode(log)}/records`, { ...params, records }, 'json')
  }

  /** Wait until this many requests have an append in a log that is not committed yet. */
  logWait(log, params = {}) {
    return this._call('GET', `${this._cluster}/logs/${encode(log)}/pending`, params, 'json')
  }

  /** Delete committed records at the end of a log, as an unclean leader election or a restored disk does. */
  logLoseTail(log, params = {}) {
    return this._call('POST', `${this._cluster}/logs/${encode(log)}/tail/loss`, params, 'json')
  }

  /** Delete the first records of a log, as a leader whose log starts later does. */
  logLoseHead(log, params = {}) {
    return this._call('POST', `${this._cluster}/logs/${encode(log)}/head/loss`, params, 'json')
  }

  /** Move the leader of a log partition; for an offsets partition this moves the coordinator of its groups. */
  leaderMove(log, params = {}) {
    return this._call('POST', `${this._cluster}/logs/${encode(log)}/leader`, params, 'json')
  }

  /** Increment the leader epoch; requests with the old one get FENCED_LEADER_EPOCH. */
  leaderElect(log, params = {}) {
    return this._call('POST', `${this._cluster}/logs/${encode(log)}/elect`, params, 'json')
  }

  /** Elect the preferred leader of every partition whose first replica is alive and in sync. */
  leaderPrefer(params = {}) {
    return this._call('POST', `${this._cluster}/leaders/preferred`, params, 'json')
  }

  /** List the requests that the brokers received, the latest ones, oldest first; received: the number of all that fit. */
  requestList(params = {}) {
    return this._call('GET', `${this._cluster}/requests`, params, 'json')
  }

  /** Wait until the brokers have received so many requests, earlier ones included; answers as request.list. */
  requestWait(params = {}) {
    return this._call('GET', `${this._cluster}/requests/wait`, params, 'json')
  }

  /** Add a request rule: selectors (all must match), how often it applies, and one action. */
  faultAdd(params = {}) {
    return this._call('POST', `${this._cluster}/faults`, params, 'json')
  }

  /** List the request rules, oldest first. */
  faultList(params = {}) {
    return this._call('GET', `${this._cluster}/faults`, params, 'json')
  }

  /** Remove all rules, matched or not. */
  faultClear(params = {}) {
    return this._call('DELETE', `${this._cluster}/faults`, params, 'json')
  }

  /** Show a rule and how often it matched; with wait_hits, once it has matched that often. */
  faultGet(fault, params = {}) {
    return this._call('GET', `${this._cluster}/faults/${encode(fault)}`, params, 'json')
  }

  /** Remove a rule. If it was required to match and never did, it is removed and an error is returned. */
  faultRemove(fault, params = {}) {
    return this._call('DELETE', `${this._cluster}/faults/${encode(fault)}`, params, 'json')
  }

  /** Wait until a rule has matched that often. */
  faultWait(fault, params = {}) {
    return this._call('GET', `${this._cluster}/faults/${encode(fault)}/hits`, params, 'json')
  }

  /** Release the requests that a rule delays or leaves unanswered; the rule stays. */
  faultRelease(fault, params = {}) {
    return this._call('POST', `${this._cluster}/faults/${encode(fault)}/release`, params, 'json')
  }

  /** Hold matching requests, in arrival order, until they are released. */
  orderHold(params = {}) {
    return this._call('POST', `${this._cluster}/order`, params, 'json')
  }

  /** List the holds and the requests that wait in them. */
  orderList(params = {}) {
    return this._call('GET', `${this._cluster}/order`, params, 'json')
  }

  /** Show the held requests of a hold; with waiting, once it holds that many. */
  orderWait(hold, params = {}) {
    return this._call('GET', `${this._cluster}/order/${encode(hold)}`, params, 'json')
  }

  /** Remove a hold and release its requests, oldest first. */
  orderRemove(hold, params = {}) {
    return this._call('DELETE', `${this._cluster}/order/${encode(hold)}`, params, 'json')
  }

  /** Release held requests, oldest first; the hold stays active. */
  orderRelease(hold, params = {}) {
    return this._call('POST', `${this._cluster}/order/${encode(hold)}/release`, params, 'json')
  }

  /** Release the oldest held request, waiting for one if necessary, and return it. */
  orderStep(hold, params = {}) {
    return this._call('POST', `${this._cluster}/order/${encode(hold)}/step`, params, 'json')
  }

  /** Record the order of all requests from now on. */
  orderRecord(params = {}) {
    return this._call('POST', `${this._cluster}/order/recording`, params, 'json')
  }

  /** Show the requests of the recorded order. */
  orderRecorded(params = {}) {
    return this._call('GET', `${this._cluster}/order/recording`, params, 'json')
  }

  /** Stop the recording and return it. */
  orderStop(params = {}) {
    return this._call('DELETE', `${this._cluster}/order/recording`, params, 'json')
  }

  /**
   * Release requests in a recorded order; early ones wait. If an expected request never arrives, the replay has
   * diverged.
   */
  orderReplay(entries, params = {}) {
    return this._call('POST', `${this._cluster}/order/replay`, { ...params, entries }, 'json')
  }

  /** Show the progress of the replay; with done, once it is complete. A diverged replay is an error then. */
  orderReplayed(params = {}) {
    return this._call('GET', `${this._cluster}/order/replay`, params, 'json')
  }

  /** Stop the replay and release the waiting requests. */
  orderUnreplay(params = {}) {
    return this._call('DELETE', `${this._cluster}/order/replay`, params, 'json')
  }

  /** List all topics, internal ones included. */
  topicList(params = {}) {
    return this._call('GET', `${this._cluster}/topics`, params, 'json')
  }

  /** Create a topic; without a number of partitions it gets the broker's default. */
  topicCreate(topic, params = {}) {
    return this._call('POST', `${this._cluster}/topics`, { ...params, topic }, 'json')
  }

  /** Show a topic: partitions, replication factor, number of records. */
  topicGet(topic, params = {}) {
    return this._call('GET', `${this._cluster}/topics/${encode(topic)}`, params, 'json')
  }

  /** Delete a topic with all its records. */
  topicDelete(topic, params = {}) {
    return this._call('DELETE', `${this._cluster}/topics/${encode(topic)}`, params, 'json')
  }

  /** Append records to a topic, as a producer does. */
  topicFill(topic, records, params = {}) {
    return this._call('POST', `${this._cluster}/topics/${encode(topic)}/records`, { ...params, records }, 'json')
  }

  /** Show a topic's records, as a consumer gets them; more: there are others behind them. */
  topicRecords(topic, params = {}) {
    return this._call('GET', `${this._cluster}/topics/${encode(topic)}/records`, params, 'json')
  }

  /** Wait until a topic has so many records. */
  topicWait(topic, records, params = {}) {
    return this._call('GET', `${this._cluster}/topics/${encode(topic)}/wait`, { ...params, records }, 'json')
  }

  /** Add partitions to a topic; clients see them when they refresh their metadata. */
  topicGrow(topic, partitions, params = {}) {
    return this._call('POST', `${this._cluster}/topics/${encode(topic)}/partitions`, { ...params, partitions }, 'json')
  }

  /** Run the steps of a scenario file on these brokers, with the clients that use them, until scenario.end. */
  scenarioStart(params = {}) {
    return this._call('POST', `${this._cluster}/scenarios`, params, 'json')
  }

  /** List the scenarios of scenario.start that were not ended, oldest first. */
  scenarioList(params = {}) {
    return this._call('GET', `${this._cluster}/scenarios`, params, 'json')
  }

  /** Show a scenario: the steps that are done, what it waits for, its progress, verdict and expectations. */
  scenarioGet(scenario, params = {}) {
    return this._call('GET', `${this._cluster}/scenarios/${encode(scenario)}`, params, 'json')
  }

  /** End a scenario: cancel it if it runs, and clear the states, rules, holds and stopped brokers that its steps left. */
  scenarioEnd(scenario, params = {}) {
    return this._call('DELETE', `${this._cluster}/scenarios/${encode(scenario)}`, params, 'json')
  }

  /** Wait until a scenario has ended, or until a step is done. A scenario whose expectations failed is an error then. */
  scenarioWait(scenario, params = {}) {
    return this._call('GET', `${this._cluster}/scenarios/${encode(scenario)}/wait`, params, 'json')
  }
}

module.exports = { Operations }
