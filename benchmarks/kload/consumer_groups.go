package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	verConsumerHeartbeat = 1

	consumerConns = 1000 // connections of a group at most: the members of a larger one share them
)

// sharedConn is a connection whose members take turns.
type sharedConn struct {
	sync.Mutex
	*conn
}

// subscriber is one member of a consumer group (KIP-848).
type subscriber struct {
	c       *sharedConn
	group   string
	id      string
	topic   string
	epoch   int32
	owned   []int32
	topicID [16]byte
	unacked bool // whether the broker has to be sent the owned partitions
}

func newMemberID() string {
	return fmt.Sprintf("%08x-%08x-%08x", rand.Uint32(), rand.Uint32(), rand.Uint32())
}

// request is the heartbeat that Java's client would send now: everything when
// it joins, the owned partitions after they changed, else neither.
func (s *subscriber) request() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	s.c.pin(req, verConsumerHeartbeat)
	if s.id == "" && req.Version > 0 { // version 0: the broker chooses it
		s.id = newMemberID()
	}
	req.Group, req.MemberID, req.MemberEpoch = s.group, s.id, s.epoch
	req.RebalanceTimeoutMillis = -1
	if s.epoch == 0 {
		req.RebalanceTimeoutMillis = sessionMs
		req.SubscribedTopicNames = []string{s.topic}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	} else if s.unacked {
		t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		t.TopicID, t.Partitions = s.topicID, s.owned
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(s.owned) > 0 {
			req.Topics = append(req.Topics, t)
		}
	}
	return req
}

// beat sends one heartbeat and applies its response.
func (s *subscriber) beat() error {
	s.c.Lock()
	resp, err := s.c.call(s.request())
	s.c.Unlock()
	if err != nil {
		return err
	}
	r := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
	if r.ErrorCode != 0 {
		text := ""
		if r.ErrorMessage != nil {
			text = *r.ErrorMessage
		}
		return fmt.Errorf("ConsumerGroupHeartbeat: error code %d %s", r.ErrorCode, text)
	}
	if r.MemberID != nil {
		s.id = *r.MemberID
	}
	s.epoch, s.unacked = r.MemberEpoch, false
	if r.Assignment != nil {
		var owned []int32
		for _, t := range r.Assignment.Topics {
			s.topicID, owned = t.TopicID, append(owned, t.Partitions...)
		}
		slices.Sort(owned)
		s.unacked = !slices.Equal(owned, s.owned)
		s.owned = owned
	}
	return nil
}

// consumerGroup is one group whose members heartbeat until they agree.
type consumerGroup struct {
	name, topic, addr string
	partitions        int
	conns             []*sharedConn
	members           []*subscriber
}

func (g *consumerGroup) add() (*subscriber, error) {
	if len(g.conns) < consumerConns {
		c, err := dialKafka(g.addr)
		if err != nil {
			return nil, err
		}
		g.conns = append(g.conns, &sharedConn{conn: c})
	}
	s := &subscriber{c: g.conns[len(g.members)%len(g.conns)], group: g.name, topic: g.topic}
	if len(g.members) < len(g.conns) {
		s.c = g.conns[len(g.members)]
	}
	g.members = append(g.members, s)
	return s, nil
}

func (g *consumerGroup) close() {
	for _, c := range g.conns {
		c.Close()
	}
}

// settle lets every member heartbeat, first first, until all have the same
// epoch and own all partitions together: at once after a change of its own
// assignment, else every poll.
func (g *consumerGroup) settle(first *subscriber, poll time.Duration) (time.Duration, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
		over   atomic.Bool
		epochs = make(map[int32]int, 8)
		seen   = make(map[*subscriber][2]int32, len(g.members)) // epoch, owned
		total  int
		end    time.Time
	)
	for _, s := range g.members {
		seen[s] = [2]int32{s.epoch, int32(len(s.owned))}
		epochs[s.epoch]++
		total += len(s.owned)
	}
	start := time.Now()
	give := start.Add(120 * time.Second)
	note := func(s *subscriber, err error) error {
		mu.Lock()
		defer mu.Unlock()
		was := seen[s]
		now := [2]int32{s.epoch, int32(len(s.owned))}
		if s.unacked {
			now[0] = -1 // not reconciled yet
		}
		if epochs[was[0]]--; epochs[was[0]] == 0 {
			delete(epochs, was[0])
		}
		epochs[now[0]]++
		total += int(now[1] - was[1])
		seen[s] = now
		if err == nil && time.Now().After(give) {
			err = fmt.Errorf("not stable after 120 s: %d members by epoch %v, %d of %d partitions", len(g.members), epochs, total, g.partitions)
		}
		if err != nil && failed == nil {
			failed = err
		}
		if !over.Load() && (failed != nil || len(epochs) == 1 && epochs[0] == 0 && epochs[-1] == 0 && total == g.partitions) {
			end = time.Now()
			over.Store(true)
		}
		return err
	}
	loop := func(s *subscriber) {
		for !over.Load() {
			if note(s, s.beat()) != nil {
				return
			}
			if !s.unacked && !over.Load() {
				time.Sleep(poll)
			}
		}
	}
	if err := note(first, first.beat()); err != nil {
		return 0, err
	}
	for _, s := range g.members {
		wg.Go(func() { loop(s) })
	}
	wg.Wait()
	return end.Sub(start), failed
}

// probe heartbeats in a group of its own until told to stop, and returns the
// longest time to a response.
func probe(o *options, stop *atomic.Bool) (worst time.Duration, err error) {
	p := *o
	p.conns = 1
	ms, err := singles(&p)
	if err != nil {
		return 0, err
	}
	defer leaveAll(ms)
	for !stop.Load() {
		t := time.Now()
		if code, err := ms[0].heartbeat(); err != nil || code != 0 {
			return worst, fmt.Errorf("heartbeat of another group: code %d: %w", code, err)
		}
		worst = max(worst, time.Since(t))
		time.Sleep(time.Millisecond)
	}
	return worst, nil
}

// consumerRebalanceLoad measures from the newcomer's first heartbeat until all
// members are reconciled: same epoch, all partitions owned and acknowledged.
func consumerRebalanceLoad(o *options, res *result) error {
	if err := ensureTopic(o.addr, o.topic, o.partitions); err != nil {
		return err
	}
	g := &consumerGroup{name: fmt.Sprintf("kload-con-%08x", rand.Uint32()), topic: o.topic, addr: o.addr, partitions: o.partitions}
	defer g.close()
	for len(g.members) < o.members {
		if _, err := g.add(); err != nil {
			return err
		}
	}
	if err := awaitCoordinator(g.conns[0].conn, g.name); err != nil {
		return err
	}
	setup, err := g.settle(g.members[0], max(o.poll, 20*time.Millisecond))
	if err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	var (
		stop   atomic.Bool
		worst  time.Duration
		probed = make(chan error, 1)
	)
	if o.probe {
		go func() {
			var err error
			worst, err = probe(o, &stop)
			probed <- err
		}()
	} else {
		probed <- nil
	}
	res.Version = verConsumerHeartbeat
	err = rounds(o, res, setup, g.add, func(s *subscriber) (time.Duration, error) { return g.settle(s, o.poll) })
	if err != nil {
		return err
	}
	stop.Store(true)
	if err := <-probed; err != nil {
		return err
	}
	res.Extra["worst_heartbeat_ms"] = float64(worst.Microseconds()) / 1e3
	return nil
}

// consumerHeartbeatLoad pipelines heartbeats of stable members, a consumer
// group for each connection.
func consumerHeartbeatLoad(o *options, res *result) error {
	if err := ensureTopic(o.addr, o.topic, o.partitions); err != nil {
		return err
	}
	res.Conns, res.Inflight = o.conns, o.inflight
	run := rand.Uint32()
	streams := make([]*stream, o.conns)
	err := parallel(o.conns, 16, func(i int) error {
		g := &consumerGroup{name: fmt.Sprintf("kload-%08x-%d", run, i), topic: o.topic, addr: o.addr, partitions: o.partitions}
		s, err := g.add()
		if err != nil {
			return err
		}
		if err := awaitCoordinator(s.c.conn, g.name); err != nil {
			return err
		}
		if _, err := g.settle(s, 20*time.Millisecond); err != nil {
			return err
		}
		r := s.request()
		streams[i] = &stream{c: s.c.conn, req: r, codes: func(r kmsg.Response) []int16 {
			return []int16{r.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode}
		}}
		return nil
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, st := range streams {
			st.c.Close()
		}
	}()
	res.Version = streams[0].req.GetVersion()
	return drive(o, res, streams)
}
