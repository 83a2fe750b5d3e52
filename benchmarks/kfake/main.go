// Command kfake serves franz-go's fake cluster without profiling: one broker,
// in memory or in a data directory. It prints its address when it listens and
// ends at SIGTERM or SIGINT.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 0, "port of the one broker; 0 takes a free one")
	data := flag.String("data", "", "data directory; in memory without it")
	flag.Parse()
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.Ports(*port)}
	if *data != "" {
		opts = append(opts, kfake.DataDir(*data))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	cluster.Close()
}
