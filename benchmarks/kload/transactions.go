package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	codeConcurrent = 51

	verInitProducer, verAddPartitions, verAddOffsets = 4, 3, 3
	verProduceOld, verOffsetsOld, verEndOld          = 11, 3, 3
	verProduceNew, verOffsetsNew, verEndNew          = 12, 5, 5
)

// producer writes one batch to one partition and commits one offset of one
// group, again and again: in transactions, or without any.
type producer struct {
	c        *conn
	name     string
	topic    string
	index    int32
	flow     int // 0: without transactions, 1 or 2: their version (KIP-890)
	id       int64
	epoch    int16
	sequence int32
	batch    []byte
	records  int
	offset   int64
	commits  bool   // whether a group's offset is in the transaction
	busy     uint64 // CONCURRENT_TRANSACTIONS, asked again at once
}

// stampBatch writes the producer's id, epoch and sequence number into a batch.
func (p *producer) stampBatch() []byte {
	b := p.batch
	attributes := binary.BigEndian.Uint16(b[21:])
	if p.flow > 0 {
		attributes |= 0x10
	}
	binary.BigEndian.PutUint16(b[21:], attributes)
	binary.BigEndian.PutUint64(b[43:], uint64(p.id))
	binary.BigEndian.PutUint16(b[51:], uint16(p.epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(p.sequence))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	p.sequence += int32(p.records)
	return b
}

// ask sends until the broker is not busy with the last transaction.
func (p *producer) ask(req kmsg.Request, code func(kmsg.Response) int16) (kmsg.Response, error) {
	for range 10_000 {
		resp, err := p.c.call(req)
		if err != nil {
			return nil, err
		}
		switch got := code(resp); got {
		case 0:
			return resp, nil
		case codeConcurrent, codeLoading, codeNotAvailable, codeNotCoordinator:
			p.busy++
		default:
			return nil, fmt.Errorf("%s: error code %d", kmsg.NameForKey(req.Key()), got)
		}
	}
	return nil, fmt.Errorf("%s: busy for ever", kmsg.NameForKey(req.Key()))
}

func (p *producer) begin() error {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(3)
	for kind, key := range []string{p.name, p.name} {
		find.CoordinatorType, find.CoordinatorKey = int8(kind), key
		if _, err := p.ask(find, func(r kmsg.Response) int16 { return r.(*kmsg.FindCoordinatorResponse).ErrorCode }); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	p.c.pin(req, verInitProducer)
	if p.flow > 0 {
		req.TransactionalID = &p.name
	}
	req.TransactionTimeoutMillis = 60_000
	resp, err := p.ask(req, func(r kmsg.Response) int16 { return r.(*kmsg.InitProducerIDResponse).ErrorCode })
	if err != nil {
		return err
	}
	p.id, p.epoch = resp.(*kmsg.InitProducerIDResponse).ProducerID, resp.(*kmsg.InitProducerIDResponse).ProducerEpoch
	return nil
}

func (p *producer) produce() error {
	req := kmsg.NewPtrProduceRequest()
	p.c.pin(req, map[int]int16{0: verProduce, 1: verProduceOld, 2: verProduceNew}[p.flow])
	if p.flow > 0 {
		req.TransactionID = &p.name
	}
	req.Acks, req.TimeoutMillis = -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = p.topic
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = p.index, p.stampBatch()
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	_, err := p.ask(req, func(r kmsg.Response) int16 {
		return r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	})
	return err
}

// plain is what a transaction does, without one.
func (p *producer) plain() error {
	if err := p.produce(); err != nil {
		return err
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	p.c.pin(req, verCommit)
	req.Group, req.Generation = p.name, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = p.topic
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset = p.index, p.offset
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	_, err := p.ask(req, func(r kmsg.Response) int16 {
		return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	})
	return err
}

func (p *producer) transaction() error {
	if p.flow == 1 {
		add := kmsg.NewPtrAddPartitionsToTxnRequest()
		p.c.pin(add, verAddPartitions)
		add.TransactionalID, add.ProducerID, add.ProducerEpoch = p.name, p.id, p.epoch
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = p.topic, []int32{p.index}
		add.Topics = append(add.Topics, t)
		if _, err := p.ask(add, func(r kmsg.Response) int16 {
			return r.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
		}); err != nil {
			return err
		}
	}
	if err := p.produce(); err != nil {
		return err
	}
	if p.commits {
		if err := p.commitOffset(); err != nil {
			return err
		}
	}
	return p.end()
}

func (p *producer) commitOffset() error {
	if p.flow == 1 {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		p.c.pin(add, verAddOffsets)
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = p.name, p.id, p.epoch, p.name
		if _, err := p.ask(add, func(r kmsg.Response) int16 { return r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode }); err != nil {
			return err
		}
	}
	offsets := kmsg.NewPtrTxnOffsetCommitRequest()
	p.c.pin(offsets, map[int]int16{1: verOffsetsOld, 2: verOffsetsNew}[p.flow])
	offsets.TransactionalID, offsets.Group, offsets.ProducerID, offsets.ProducerEpoch = p.name, p.name, p.id, p.epoch
	offsets.Generation = -1
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic = p.topic
	part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset = p.index, p.offset
	t.Partitions = append(t.Partitions, part)
	offsets.Topics = append(offsets.Topics, t)
	_, err := p.ask(offsets, func(r kmsg.Response) int16 {
		return r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	})
	return err
}

func (p *producer) end() error {
	end := kmsg.NewPtrEndTxnRequest()
	p.c.pin(end, map[int]int16{1: verEndOld, 2: verEndNew}[p.flow])
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = p.name, p.id, p.epoch, true
	resp, err := p.ask(end, func(r kmsg.Response) int16 { return r.(*kmsg.EndTxnResponse).ErrorCode })
	if err != nil {
		return err
	}
	if p.flow == 2 {
		if got := resp.(*kmsg.EndTxnResponse); got.ProducerEpoch != p.epoch || got.ProducerID != p.id {
			p.id, p.epoch, p.sequence = got.ProducerID, got.ProducerEpoch, 0
		}
	}
	return nil
}

func (p *producer) run(deadline time.Time) (*stats, error) {
	s := newStats()
	once := p.transaction
	if p.flow == 0 {
		once = p.plain
	}
	for time.Now().Before(deadline) {
		t := time.Now()
		p.offset++
		if err := once(); err != nil {
			return s, err
		}
		s.lat.add(time.Since(t))
		s.requests++
		s.records += uint64(p.records)
	}
	return s, nil
}

// transactionLoad counts a whole transaction as one request: a batch, a
// group's offset, the end. With --flow 0 the batch and the offset alone.
func transactionLoad(o *options, res *result) error {
	if err := ensureTopic(o.addr, o.topic, o.partitions); err != nil {
		return err
	}
	res.Conns, res.Inflight, res.Version = o.conns, 1, int16(o.flow)
	var producers []*producer
	for i := range o.conns {
		c, err := dialKafka(o.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		p := &producer{c: c, name: fmt.Sprintf("kload-%d-%d", o.flow, i), topic: o.topic, index: int32(i % o.partitions),
			flow: o.flow, commits: true,
			batch: recordBatch(o.records, o.size), records: o.records}
		if err := p.begin(); err != nil {
			return err
		}
		producers = append(producers, p)
	}
	if _, err := timed(o, res, producers); err != nil {
		return err
	}
	var busy uint64
	for _, p := range producers {
		busy += p.busy
	}
	res.Extra = map[string]any{"busy": busy}
	return nil
}

// idsLoad begins so many transactional ids, and tells the broker's memory after each count.
func idsLoad(o *options, res *result) error {
	return growing(o, res, func(c *conn, i int) error {
		p := &producer{c: c, name: fmt.Sprintf("kload-id-%d", i), topic: o.topic, flow: o.flow, index: int32(i % o.partitions),
			batch: recordBatch(1, 10), records: 1}
		if err := p.begin(); err != nil {
			return err
		}
		return p.transaction()
	})
}
