// go-ycsb with the bindings that are compared and no others: its own program links two dozen stores, and takes many
// minutes and a C++ library or two to build. What runs is go-ycsb's own: workload, client, bindings, measurement.
//
//	go-ycsb load|run basic|pg|redis SECONDS NAME=VALUE …
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/basic"
	_ "github.com/pingcap/go-ycsb/db/pg"
	_ "github.com/pingcap/go-ycsb/db/redis"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) < 3 {
		return fmt.Errorf("go-ycsb load|run DB SECONDS NAME=VALUE …")
	}
	command, database := words[0], words[1]
	seconds, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	all := properties.NewProperties()
	for _, word := range words[3:] {
		name, value, found := strings.Cut(word, "=")
		if !found {
			return fmt.Errorf("%q is not NAME=VALUE", word)
		}
		all.Set(name, value)
	}
	all.Set(prop.Command, command)
	all.Set(prop.DoTransactions, strconv.FormatBool(command == "run"))
	all.Set(prop.TableName, prop.TableNameDefault)
	measurement.InitMeasure(all)
	workload, err := ycsb.GetWorkloadCreator("core").Create(all)
	if err != nil {
		return err
	}
	creator := ycsb.GetDBCreator(database)
	if creator == nil {
		return fmt.Errorf("there is no binding %q", database)
	}
	db, err := creator.Create(all)
	if err != nil {
		return err
	}
	// As go-ycsb's own: a context that can be cancelled and has no deadline.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if command == "run" {
		time.AfterFunc(time.Duration(seconds)*time.Second, cancel)
	}
	client.NewClient(all, workload, client.DbWrapper{DB: db}).Run(ctx)
	measurement.Output()
	return nil
}
