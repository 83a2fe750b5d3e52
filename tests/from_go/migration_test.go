package from_go

import (
	"context"
	"testing"
	"time"

	brokersim "github.com/broker-sim/broker-sim/packages/go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The lines "after" of docs/migration.md.

func TestFromTestcontainers(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.SeedTopics(6, "orders"))
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("42")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	kafka.AwaitRecords("orders", 1, 10*time.Second)
}

func TestFromKfake(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.NumBrokers(3), brokersim.SeedTopics(6, "orders"))
	kafka.Fill("orders", 600)
	refused := kafka.AddFault(brokersim.FaultAddParams{API: []string{"OffsetCommit"}, Error: "NOT_COORDINATOR", Times: 1})
	client := consumer(t, kafka, "app")
	poll(t, client)
	if err := await(t, "the commit", commit(client)); err != nil { // franz-go asks for the coordinator and commits again
		t.Error(err)
	}
	refused.AwaitHits(1)
}
