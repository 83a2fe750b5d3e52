// A member of a share group (franz-go's kgo.ShareGroup) that says what it was given, a line for each record: value, delivery count, and
// how it acknowledges it. Records that begin with "again" are released at their first delivery, those that begin with "bad" are
// rejected. Ends when so many records were accepted, and leaves.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	wanted, err := strconv.Atoi(os.Args[4])
	if err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ShareGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			for _, one := range results {
				if one.Err != nil {
					fmt.Println("refused", one.Err)
				}
			}
		}),
	)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("subscribed")
	accepted := 0
	for accepted < wanted && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				fmt.Println("error", topic, partition, err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			value, status, said := string(record.Value), kgo.AckAccept, "accept"
			switch {
			case strings.HasPrefix(value, "again") && record.DeliveryCount() == 1:
				status, said = kgo.AckRelease, "release"
			case strings.HasPrefix(value, "bad"):
				status, said = kgo.AckReject, "reject"
			default:
				accepted++
			}
			record.Ack(status)
			fmt.Println(value, record.DeliveryCount(), said)
		})
		if err := client.FlushAcks(ctx); err != nil && ctx.Err() == nil {
			fmt.Println("error", err)
		}
	}
	fmt.Println("accepted", accepted)
	client.Close()
	fmt.Println("left")
}
