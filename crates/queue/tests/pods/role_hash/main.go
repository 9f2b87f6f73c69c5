// Prints the role hash that Kueue gives each pod of a list of cases, in their order:
//
//	go run -mod=mod . < ../hash.yaml
//
// A case has a name (`says`) and a pod as the API server hands it to a webhook: with its defaults.
package main

import (
	"fmt"
	"io"
	"os"

	core "k8s.io/api/core/v1"
	rolehash "sigs.k8s.io/kueue/pkg/util/pod"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	check(err)
	var cases []struct {
		Says string   `json:"says"`
		Pod  core.Pod `json:"pod"`
	}
	check(yaml.Unmarshal(text, &cases))
	for _, one := range cases {
		hash, err := rolehash.GenerateRoleHash(&one.Pod.Spec)
		check(err)
		fmt.Printf("%s %s\n", hash, one.Says)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
