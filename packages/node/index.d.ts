import {
  ClusterCreateParams, Duration, Fault, FaultAddParams, LogWaitAnswer, Log, Operations, ReceivedRequest, RequestWaitParams, Scenario,
  ScenarioStartParams, StateSetParams, TopicRecord, Cluster as ClusterInfo
} from './operations'

export * from './operations'

/** A request to the control server that was refused, or a wait whose deadline passed. */
export class BrokerSimError extends Error {
  /** Of HTTP. */
  status: number
  /** UsageError, NotThere, WaitTimeout, NeverHit, KafkaError, ... */
  kind: string
  /** The valid name that is most like the given one. */
  nearest?: string
  /** Of a wait: what happened instead. */
  history?: string
  /** Kafka's name of the error. */
  kafkaError?: string
}

/** An active rule on requests. */
export interface ActiveFault {
  id: number
  /** Waits until the rule has matched that often. */
  awaitHits(hits: number, timeout?: Duration): Promise<Fault>
  /** Removes the rule; it is an error if it never matched. */
  remove(): Promise<Fault>
}

/** A fault state of a log partition. */
export interface ActiveState {
  id: number
  /** Waits until so many requests wait for the log. */
  awaitPending(pending: number, timeout?: Duration): Promise<LogWaitAnswer>
  /** Clears the state; no error where it has ended. */
  heal(): Promise<Log>
}

/** A scenario file whose steps run on the cluster. */
export interface ActiveScenario {
  id: number
  /** Waits until a step is done. */
  awaitStep(step: string, timeout?: Duration): Promise<Scenario>
  /** Waits until all steps are done and all expectations held; it is an error if one failed. */
  awaitEnd(timeout?: Duration): Promise<Scenario>
  /** The steps that are done, what it waits for, its progress and its verdict. */
  describe(): Promise<Scenario>
  /** Cancels it if it runs, and clears the faults that its steps have set; an error if an expectation failed, unless `awaitEnd` has reported that. */
  end(): Promise<Scenario>
}

/** Options of a cluster; those that differ from their defaults replace the settings of the scenario file. */
export interface ClusterOptions extends Omit<ClusterCreateParams, 'scenario' | 'scenario_file'> {
  /** A scenario file, by its path, or an included one, by its name: the cluster has its settings and topics, and its steps run. */
  scenario?: string | URL
}

/** A simulated Kafka cluster. */
export class SimCluster extends Operations {
  readonly created: ClusterInfo
  /** One address for each broker. */
  readonly brokers: string[]
  /** The addresses in one text. */
  readonly bootstrap: string
  /** The certificate authority that clients must trust, in PEM; null without TLS. */
  readonly ca: string | null
  /** Lets a function run before the cluster stops, as in `kafka.beforeClose(() => consumer.disconnect())`; the last one is the first to run. */
  beforeClose(run: () => unknown): void
  /** Stops the cluster. */
  close(): Promise<void>
  /** Adds a rule on requests. */
  fault(rule: FaultAddParams): Promise<ActiveFault>
  /** The scenario of the option `scenario`. */
  readonly scenario?: ActiveScenario
  /** Runs the steps of a scenario file with the clients of the test: a path, or the name of an included scenario. */
  startScenario(file: string | URL, params?: Omit<ScenarioStartParams, 'name' | 'file'>): Promise<ActiveScenario>
  /** Sets a fault state of a log partition: `orders-0`, `offsets(billing)`. */
  state(log: string, kind: string, params?: StateSetParams): Promise<ActiveState>
  /** Waits until a topic has so many records, and returns them, by partition and offset. */
  awaitRecords(topic: string, count: number, timeout?: Duration): Promise<TopicRecord[]>
  /** Waits until so many requests were received and answered, and returns them, the oldest first. */
  awaitRequests(count: number, params?: RequestWaitParams): Promise<ReceivedRequest[]>
  /** Ends the scenarios that are still there, and removes the rules; a failed expectation, and a required rule that never matched, is an error. */
  endRules(): Promise<void>
}

/** Starts a cluster. Groups form at once, and the internal topics exist from the start, unless the options say otherwise. */
export function startCluster(options?: ClusterOptions): Promise<SimCluster>

/**
 * Makes the function of a test that gets a cluster of its own: it ends with the test. The error of a test that fails has the history of its
 * groups. A rule that never matched, and a scenario whose expectations failed, fail the test.
 */
export function withCluster<A extends unknown[], T>(
  options: ClusterOptions, body: (kafka: SimCluster, ...context: A) => T | Promise<T>
): (...context: A) => Promise<T>
