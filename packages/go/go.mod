module github.com/broker-sim/broker-sim/packages/go

go 1.22
