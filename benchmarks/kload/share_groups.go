package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	verShareHeartbeat, verShareFetch, verAlterConfigs = 1, 2, 1

	resourceGroup = 32
	acceptRecord  = 1
)

// sharer is the only member of a share group (KIP-932): each ShareFetch
// accepts the records of the one before.
type sharer struct {
	c          *conn
	group      string
	id         string
	topic      string
	partitions int
	topicID    [16]byte
	epoch      int32 // of the member
	session    int32 // epoch of the share session
	records    int32 // of a fetch at most
	pending    []kmsg.ShareFetchRequestTopicPartition
}

// fromEarliest sets the group's share.auto.offset.reset.
func (s *sharer) fromEarliest() error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	s.c.pin(req, verAlterConfigs)
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = resourceGroup, s.group
	cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	cfg.Name, cfg.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	r.Configs = append(r.Configs, cfg)
	req.Resources = append(req.Resources, r)
	resp, err := s.c.call(req)
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode; code != 0 {
		return fmt.Errorf("IncrementalAlterConfigs: error code %d", code)
	}
	return nil
}

// enter heartbeats until all partitions are assigned.
func (s *sharer) enter() error {
	for range 300 {
		req := kmsg.NewPtrShareGroupHeartbeatRequest()
		s.c.pin(req, verShareHeartbeat)
		req.GroupID, req.MemberID, req.MemberEpoch = s.group, s.id, s.epoch
		if s.epoch == 0 {
			req.SubscribedTopicNames = []string{s.topic}
		}
		resp, err := s.c.call(req)
		if err != nil {
			return err
		}
		r := resp.(*kmsg.ShareGroupHeartbeatResponse)
		switch r.ErrorCode {
		case 0:
			s.epoch = r.MemberEpoch
		case codeLoading, codeNotAvailable, codeNotCoordinator:
		default:
			return fmt.Errorf("ShareGroupHeartbeat: error code %d", r.ErrorCode)
		}
		if r.Assignment != nil {
			for _, t := range r.Assignment.TopicPartitions {
				if len(t.Partitions) == s.partitions {
					s.topicID = t.TopicID
					return nil
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the share group's partitions were not assigned within 6 s")
}

// fetch accepts what the last one acquired and acquires the next records.
func (s *sharer) fetch() (records uint64, rx int, err error) {
	req := kmsg.NewPtrShareFetchRequest()
	s.c.pin(req, verShareFetch)
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &s.group, &s.id, s.session
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 1<<20
	req.MaxRecords, req.BatchSize = s.records, s.records
	t := kmsg.NewShareFetchRequestTopic()
	t.TopicID = s.topicID
	if s.session == 0 {
		for p := range s.partitions {
			tp := kmsg.NewShareFetchRequestTopicPartition()
			tp.Partition, tp.PartitionMaxBytes = int32(p), 1<<20
			t.Partitions = append(t.Partitions, tp)
		}
	} else {
		t.Partitions = s.pending
	}
	if len(t.Partitions) > 0 {
		req.Topics = append(req.Topics, t)
	}
	resp, err := s.c.call(req)
	if err != nil {
		return 0, 0, err
	}
	r := resp.(*kmsg.ShareFetchResponse)
	if r.ErrorCode != 0 {
		return 0, 0, fmt.Errorf("ShareFetch: error code %d", r.ErrorCode)
	}
	s.session++
	s.pending = nil
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 || p.AcknowledgeErrorCode != 0 {
				return records, rx, fmt.Errorf("ShareFetch: error codes %d and %d of partition %d", p.ErrorCode, p.AcknowledgeErrorCode, p.Partition)
			}
			rx += len(p.Records)
			ack := kmsg.NewShareFetchRequestTopicPartition()
			ack.Partition, ack.PartitionMaxBytes = p.Partition, 1<<20
			for _, a := range p.AcquiredRecords {
				records += uint64(a.LastOffset - a.FirstOffset + 1)
				b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
				b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = a.FirstOffset, a.LastOffset, []int8{acceptRecord}
				ack.AcknowledgementBatches = append(ack.AcknowledgementBatches, b)
			}
			if len(ack.AcknowledgementBatches) > 0 {
				s.pending = append(s.pending, ack)
			}
		}
	}
	return records, rx, nil
}

func (s *sharer) run(deadline time.Time) (*stats, error) {
	st := newStats()
	for time.Now().Before(deadline) {
		t := time.Now()
		n, rx, err := s.fetch()
		if err != nil {
			return st, err
		}
		if n == 0 && s.session > 1 {
			return st, fmt.Errorf("no record acquired by fetch %d: the log is at its end", s.session)
		}
		st.lat.add(time.Since(t))
		st.requests++
		st.rx += uint64(rx)
		st.records += n
	}
	return st, nil
}

// shareLoad measures ShareFetches of --records records, each of which accepts
// those of the one before: a share group for each connection, all of which read
// what produce wrote.
func shareLoad(o *options, res *result) error {
	res.Conns, res.Inflight = o.conns, 1
	run := rand.Uint32()
	sharers := make([]*sharer, o.conns)
	err := parallel(o.conns, 16, func(i int) error {
		c, err := dialKafka(o.addr)
		if err != nil {
			return err
		}
		s := &sharer{c: c, group: fmt.Sprintf("kload-%08x-%d", run, i), id: newMemberID(), topic: o.topic,
			partitions: o.partitions, records: int32(o.records)}
		sharers[i] = s
		if err := s.fromEarliest(); err != nil {
			return err
		}
		if err := awaitCoordinator(c, s.group); err != nil {
			return err
		}
		return s.enter()
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range sharers {
			s.c.Close()
		}
	}()
	total, err := timed(o, res, sharers)
	if err != nil {
		return err
	}
	res.Extra = map[string]any{"records_per_fetch": float64(total.records) / float64(max(total.requests, 1)), "mb_s": res.RxPerSec / 1e6}
	return nil
}
