// What TypeScript makes of the declarations: `npx tsc` must have nothing to say but what is expected here.
import { BrokerSimError, SimCluster, startCluster, withCluster } from 'broker-sim'

export const body = withCluster({ brokers: 3, topics: { orders: 6 }, clock: 'manual' }, async (kafka: SimCluster, name: string) => {
  const generation: number = (await kafka.groupWait('billing', { state: 'Stable', members: 3, timeout: '30s' })).generation
  const value: string | null = (await kafka.awaitRecords('orders', 1))[0].value
  // @ts-expect-error: no state of a group
  await kafka.groupWait('billing', { state: 'stable' })
  // @ts-expect-error: a key may be null
  const key: string = (await kafka.topicRecords('orders')).records[0].key
  return [generation, value, key, name]
})

export const incident = withCluster({ scenario: 'incident.yaml' }, async (kafka: SimCluster) => {
  const verdict: string | null | undefined = (await kafka.scenario?.awaitEnd('60s'))?.verdict
  return verdict
})

export async function alone(): Promise<string> {
  const kafka = await startCluster()
  try {
    return (await kafka.groupExplain('billing')).text
  } catch (error) {
    return error instanceof BrokerSimError ? error.kind : 'other'
  } finally {
    await kafka.close()
  }
}
