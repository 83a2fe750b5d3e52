// Driver for franz-go. The protocol is the one that python/line_protocol.py describes: a JSON object a line, requests on
// stdin, replies on stdout, the client's log on stderr. A member polls by itself in its own goroutine.
//
// franz-go consumes assigned partitions outside of any group; the group's offsets are then read and committed through
// kadm, as its documentation recommends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const callTimeout = 20 * time.Second

var (
	bootstrap string
	out       sync.Mutex
	members   = map[string]*member{}
	admin     *kadm.Client // one for the process
	errLater  = errors.New("answered later, by a callback")
	balancers = map[string]func() kgo.GroupBalancer{
		"range": kgo.RangeBalancer, "roundrobin": kgo.RoundRobinBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer,
	}
	codecs = map[string]func() kgo.CompressionCodec{
		"": kgo.NoCompression, "gzip": kgo.GzipCompression, "snappy": kgo.SnappyCompression, "lz4": kgo.Lz4Compression,
		"zstd": kgo.ZstdCompression,
	}
)

type partition struct {
	topic string
	index int32
}

func (p *partition) UnmarshalJSON(data []byte) error { return unmarshalRow(data, &p.topic, &p.index) }
func (p partition) MarshalJSON() ([]byte, error)     { return json.Marshal([]any{p.topic, p.index}) }

type offsetRow struct {
	partition
	offset   int64
	metadata string
}

func (o *offsetRow) UnmarshalJSON(data []byte) error {
	return unmarshalRow(data, &o.topic, &o.index, &o.offset, &o.metadata)
}
func (o offsetRow) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{o.topic, o.index, o.offset, o.metadata})
}

func unmarshalRow(data []byte, fields ...any) error { return json.Unmarshal(data, &fields) }

type request struct {
	ID                   int         `json:"id"`
	Op                   string      `json:"op"`
	Member               string      `json:"member"`
	Group                *string     `json:"group"`
	Topics               []string    `json:"topics"`
	Pattern              string      `json:"pattern"`
	Assign               []partition `json:"assign"`
	Strategy             string      `json:"strategy"`
	Instance             string      `json:"instance"`
	Reset                string      `json:"reset"`
	Isolation            string      `json:"isolation"`
	AutoCommit           bool        `json:"auto_commit"`
	AutoCommitIntervalMS int         `json:"auto_commit_interval_ms"`
	SessionTimeoutMS     int         `json:"session_timeout_ms"`
	HeartbeatIntervalMS  int         `json:"heartbeat_interval_ms"`
	MetadataMaxAgeMS     int         `json:"metadata_max_age_ms"`
	How                  string      `json:"how"`
	Offsets              []offsetRow `json:"offsets"`
	PartitionRows        partitions  `json:"partitions"`
	TimestampMS          int64       `json:"timestamp_ms"`
	Topic                string      `json:"topic"`
	Total                int         `json:"total"`
	Partition            int32       `json:"partition"`
	Before               int64       `json:"before"`
	Acks                 string      `json:"acks"`
	Compression          string      `json:"compression"`
	MayCreate            bool        `json:"may_create"`
	Records              []produced  `json:"records"`
}

type produced struct {
	Partition *int32      `json:"partition"`
	Key       *string     `json:"key"`
	Value     string      `json:"value"`
	Timestamp *int64      `json:"timestamp"`
	Headers   [][2]string `json:"headers"`
}

// partitions is a list of partitions, or, for create_topic, their number.
type partitions struct {
	rows  []partition
	count int32
}

func (p *partitions) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, &p.rows)
	}
	return json.Unmarshal(data, &p.count)
}

type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func describe(err error) failure {
	var broker *kerr.Error
	if errors.As(err, &broker) {
		return failure{broker.Message, err.Error()}
	}
	return failure{reflect.TypeOf(err).String(), err.Error()}
}

func answer(r *request, value any, err error) {
	if err == errLater {
		return
	}
	reply := map[string]any{"id": r.ID, "ok": value}
	if err != nil {
		reply = map[string]any{"id": r.ID, "error": describe(err)}
	}
	line, _ := json.Marshal(reply)
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// watch reports connections that the broker ended: the matrix expects none.
type watch struct{}

func (watch) OnBrokerRead(meta kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) && errors.Is(err, io.EOF) {
		fmt.Fprintf(os.Stderr, "LOST connection to broker %d while reading the answer to key %d: %v\n", meta.NodeID, key, err)
	}
}

func common(extra ...kgo.Opt) []kgo.Opt {
	logger := kgo.BasicLogger(os.Stderr, kgo.LogLevelError, nil)
	return append([]kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.WithLogger(logger), kgo.WithHooks(watch{})}, extra...)
}

// ---------------------------------------------------------------------------------------------------- members

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

// ---------------------------------------------------------------------------------------------------- producing

func produce(ctx context.Context, r *request) (any, error) {
	opts := common(kgo.ProducerLinger(millis(5)), kgo.ProducerBatchCompression(codecs[r.Compression]()))
	switch r.Acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	if r.MayCreate {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	if len(r.Records) > 0 && r.Records[0].Partition != nil {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []*kgo.Record{}
	for _, p := range r.Records {
		record := &kgo.Record{Topic: r.Topic, Value: []byte(p.Value)}
		if p.Key != nil {
			record.Key = []byte(*p.Key)
		}
		if p.Partition != nil {
			record.Partition = *p.Partition
		}
		if p.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*p.Timestamp)
		}
		for _, header := range p.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		records = append(records, record)
	}
	results := client.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		return nil, err
	}
	rows := [][]any{}
	for _, record := range records {
		rows = append(rows, []any{record.Partition, record.Offset})
	}
	return rows, nil
}

// ---------------------------------------------------------------------------------------------------- administration

func createTopic(ctx context.Context, r *request) (any, error) {
	_, err := admin.CreateTopic(ctx, r.PartitionRows.count, 1, nil, r.Topic)
	return nil, err
}

func createPartitions(ctx context.Context, r *request) (any, error) {
	response, err := admin.UpdatePartitions(ctx, r.Total, r.Topic)
	return nil, errors.Join(err, response.Error())
}

func deleteRecords(ctx context.Context, r *request) (any, error) {
	offsets := kadm.Offsets{}
	offsets.AddOffset(r.Topic, r.Partition, r.Before, -1)
	response, err := admin.DeleteRecords(ctx, offsets)
	return nil, errors.Join(err, response.Error())
}

func committedRows(ctx context.Context, group string, wanted []partition) (any, error) {
	found, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	rows := []offsetRow{}
	for _, p := range wanted {
		row := offsetRow{p, -1, ""}
		if c, ok := found.Lookup(p.topic, p.index); ok {
			if c.Err != nil {
				return nil, c.Err
			}
			row.offset, row.metadata = c.At, c.Metadata
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func listGroups(ctx context.Context) (any, error) {
	groups, err := admin.ListGroups(ctx)
	return groups.Groups(), err
}

func describeGroup(ctx context.Context, r *request) (any, error) {
	groups, err := admin.DescribeGroups(ctx, *r.Group)
	if err != nil {
		return nil, err
	}
	group := groups[*r.Group]
	rows := []map[string]any{}
	for _, m := range group.Members {
		assigned := []partition{}
		if consumer, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range consumer.Topics {
				for _, index := range topic.Partitions {
					assigned = append(assigned, partition{topic.Topic, index})
				}
			}
		}
		rows = append(rows, map[string]any{"client_id": m.ClientID, "instance": m.InstanceID, "assignment": assigned})
	}
	return map[string]any{"state": group.State, "protocol": group.Protocol, "members": rows}, group.Err
}

func deleteGroup(ctx context.Context, r *request) (any, error) {
	response, err := admin.DeleteGroup(ctx, *r.Group)
	return nil, errors.Join(err, response.Err)
}

func hello() (any, error) {
	version := "?"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "github.com/twmb/franz-go" {
				version = dependency.Version
			}
		}
	}
	return map[string]string{"client": "franz-go", "version": version}, nil
}

func perform(ctx context.Context, r *request) (any, error) {
	switch r.Op {
	case "hello":
		return hello()
	case "produce":
		return produce(ctx, r)
	case "create_topic":
		return createTopic(ctx, r)
	case "create_partitions":
		return createPartitions(ctx, r)
	case "delete_records":
		return deleteRecords(ctx, r)
	case "group_offsets":
		return committedRows(ctx, *r.Group, r.PartitionRows.rows)
	case "list_groups":
		return listGroups(ctx)
	case "describe_group":
		return describeGroup(ctx, r)
	case "delete_group":
		return deleteGroup(ctx, r)
	case "start":
		return start(ctx, r)
	}
	m := members[r.Member]
	switch r.Op {
	case "state":
		return m.state()
	case "commit":
		return m.commit(ctx, r)
	case "committed":
		return committedRows(ctx, *m.options.Group, r.PartitionRows.rows)
	case "seek_timestamp":
		return m.seekTimestamp(ctx, r)
	case "leave":
		return m.leave()
	}
	return nil, fmt.Errorf("no operation %q", r.Op)
}

func main() {
	bootstrap = os.Args[1]
	client, err := kgo.NewClient(common()...)
	if err != nil {
		panic(err)
	}
	admin = kadm.NewClient(client)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		r := &request{}
		if err := json.Unmarshal(line, r); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		value, err := perform(ctx, r)
		answer(r, value, err)
		cancel()
	}
}
