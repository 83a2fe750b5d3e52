// A member: one consumer that polls by itself from start to leave.
package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	options  *request
	client   *kgo.Client
	left     chan struct{}
	lock     sync.Mutex
	owned    map[partition]bool
	next     map[partition]int64 // of assigned partitions outside of a group: the offset after the last record
	records  [][]any
	assigned [][]partition
	revoked  [][]partition
	errors   []failure
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func startOffset(reset string) kgo.Offset {
	switch reset {
	case "earliest":
		return kgo.NewOffset().AtStart()
	case "latest":
		return kgo.NewOffset().AtEnd()
	default:
		return kgo.NewOffset().AtCommitted()
	}
}

func start(ctx context.Context, r *request) (any, error) {
	m := &member{options: r, owned: map[partition]bool{}, next: map[partition]int64{}, left: make(chan struct{})}
	age := millis(r.MetadataMaxAgeMS)
	opts := common(kgo.ClientID(r.Member), kgo.FetchMaxWait(millis(100)), kgo.ConsumeResetOffset(startOffset(r.Reset)),
		kgo.MetadataMaxAge(age), kgo.MetadataMinAge(min(age, millis(250))))
	if r.Isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if r.Assign != nil {
		offsets, err := m.assignedOffsets(ctx)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.ConsumePartitions(offsets))
	} else {
		opts = append(opts, m.groupOptions()...)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	m.client = client
	members[r.Member] = m
	go m.poll()
	return nil, nil
}

func (m *member) assignedOffsets(ctx context.Context) (map[string]map[int32]kgo.Offset, error) {
	offsets := map[string]map[int32]kgo.Offset{}
	committed := kadm.OffsetResponses{}
	if m.options.Group != nil {
		var err error
		if committed, err = admin.FetchOffsets(ctx, *m.options.Group); err != nil {
			return nil, err
		}
	}
	for _, p := range m.options.Assign {
		at := startOffset(m.options.Reset)
		if c, ok := committed.Lookup(p.topic, p.index); ok && c.Err == nil && c.At >= 0 {
			at = kgo.NewOffset().At(c.At)
		}
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]kgo.Offset{}
		}
		offsets[p.topic][p.index] = at
		m.owned[p] = true
	}
	return offsets, nil
}

func (m *member) groupOptions() []kgo.Opt {
	r := m.options
	opts := []kgo.Opt{kgo.ConsumerGroup(*r.Group), kgo.Balancers(balancers[r.Strategy]()), kgo.InstanceID(r.Instance),
		kgo.SessionTimeout(millis(r.SessionTimeoutMS)), kgo.HeartbeatInterval(millis(r.HeartbeatIntervalMS)),
		kgo.OnPartitionsAssigned(m.onAssigned), kgo.OnPartitionsRevoked(m.onRevoked), kgo.OnPartitionsLost(m.onLost)}
	if r.Instance == "" {
		opts = append(opts[:2], opts[3:]...)
	}
	if r.Config["group.protocol"] == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	if r.Pattern != "" {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(r.Pattern))
	} else {
		opts = append(opts, kgo.ConsumeTopics(r.Topics...))
	}
	if r.AutoCommit {
		return append(opts, kgo.AutoCommitInterval(millis(r.AutoCommitIntervalMS)))
	}
	return append(opts, kgo.DisableAutoCommit())
}

func flat(topics map[string][]int32) []partition {
	rows := []partition{}
	for topic, indexes := range topics {
		for _, index := range indexes {
			rows = append(rows, partition{topic, index})
		}
	}
	return rows
}

func (m *member) onAssigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	rows := flat(added)
	m.assigned = append(m.assigned, rows)
	for _, p := range rows {
		m.owned[p] = true
	}
}

func (m *member) onRevoked(ctx context.Context, client *kgo.Client, gone map[string][]int32) {
	if m.options.AutoCommit { // what franz-go itself does where no callback is given
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			m.failed(err)
		}
	}
	m.onLost(ctx, client, gone)
}

func (m *member) onLost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	rows := flat(gone)
	m.revoked = append(m.revoked, rows)
	for _, p := range rows {
		delete(m.owned, p)
	}
}

func (m *member) failed(err error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	entry := describe(err)
	if len(m.errors) == 0 || m.errors[len(m.errors)-1] != entry {
		m.errors = append(m.errors, entry)
	}
}

func (m *member) poll() {
	defer close(m.left)
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) { m.failed(err) })
		m.lock.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			var key any
			if r.Key != nil {
				key = string(r.Key)
			}
			m.records = append(m.records,
				[]any{r.Topic, r.Partition, r.Offset, key, string(r.Value), r.Timestamp.UnixMilli()})
			m.next[partition{r.Topic, r.Partition}] = r.Offset + 1
		})
		m.lock.Unlock()
	}
}

func (m *member) state() (any, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	owned := []partition{}
	for p := range m.owned {
		owned = append(owned, p)
	}
	copied := map[string]any{"assignment": owned, "records": append([][]any{}, m.records...),
		"assigned": append([][]partition{}, m.assigned...), "revoked": append([][]partition{}, m.revoked...),
		"errors": append([]failure{}, m.errors...)}
	return copied, nil
}

func (m *member) commit(ctx context.Context, r *request) (any, error) {
	if m.options.Assign != nil {
		return nil, m.commitOutsideTheGroup(ctx, r)
	}
	offsets := m.client.UncommittedOffsets()
	if r.Offsets != nil {
		offsets = map[string]map[int32]kgo.EpochOffset{}
		for _, row := range r.Offsets {
			if offsets[row.topic] == nil {
				offsets[row.topic] = map[int32]kgo.EpochOffset{}
			}
			offsets[row.topic][row.index] = kgo.EpochOffset{Epoch: -1, Offset: row.offset}
		}
		ctx = kgo.PreCommitFnContext(ctx, func(toSend *kmsg.OffsetCommitRequest) error {
			return setMetadata(toSend, r.Offsets)
		})
	}
	done := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			err = firstError(response)
		}
		answer(r, nil, err)
	}
	if r.How == "sync" {
		m.client.CommitOffsetsSync(ctx, offsets, done)
	} else {
		m.client.CommitOffsets(context.WithoutCancel(ctx), offsets, done)
	}
	return nil, errLater
}

func setMetadata(toSend *kmsg.OffsetCommitRequest, rows []offsetRow) error {
	for i := range toSend.Topics {
		for j := range toSend.Topics[i].Partitions {
			p := &toSend.Topics[i].Partitions[j]
			for _, row := range rows {
				if row.topic == toSend.Topics[i].Topic && row.index == p.Partition {
					p.Metadata = kmsg.StringPtr(row.metadata)
				}
			}
		}
	}
	return nil
}

func firstError(response *kmsg.OffsetCommitResponse) error {
	if response == nil {
		return nil
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *member) commitOutsideTheGroup(ctx context.Context, r *request) error {
	offsets := kadm.Offsets{}
	m.lock.Lock()
	for p, next := range m.next {
		offsets.AddOffset(p.topic, p.index, next, -1)
	}
	m.lock.Unlock()
	if r.Offsets != nil {
		offsets = kadm.Offsets{}
		for _, row := range r.Offsets {
			offsets.Add(kadm.Offset{Topic: row.topic, Partition: row.index, At: row.offset, LeaderEpoch: -1, Metadata: row.metadata})
		}
	}
	return admin.CommitAllOffsets(ctx, *m.options.Group, offsets)
}

func (m *member) seekTimestamp(ctx context.Context, r *request) (any, error) {
	topics := map[string]bool{}
	names := []string{}
	for _, p := range r.PartitionRows.rows {
		if !topics[p.topic] {
			topics[p.topic] = true
			names = append(names, p.topic)
		}
	}
	found, err := admin.ListOffsetsAfterMilli(ctx, r.TimestampMS, names...)
	if err != nil {
		return nil, err
	}
	seek := map[string]map[int32]kgo.EpochOffset{}
	rows := [][]any{}
	for _, p := range r.PartitionRows.rows {
		at, _ := found.Lookup(p.topic, p.index)
		if seek[p.topic] == nil {
			seek[p.topic] = map[int32]kgo.EpochOffset{}
		}
		seek[p.topic][p.index] = kgo.EpochOffset{Epoch: -1, Offset: at.Offset}
		rows = append(rows, []any{p.topic, p.index, at.Offset})
	}
	m.client.SetOffsets(seek)
	return rows, nil
}

func (m *member) leave() (any, error) {
	m.client.Close()
	<-m.left
	m.lock.Lock()
	defer m.lock.Unlock()
	m.owned = map[partition]bool{}
	return nil, nil
}
