// Prints the keys of a configuration file by the Go types that read it, one path a line: `[]` stands for each item of a
// list, `{}` for each value of a map. The files beside it were made so, in a folder with this file, for each of
//
//	kueue-0.18-*, kueue-0.19-*  sigs.k8s.io/kueue v0.18.4, v0.19.2: apis/config/v1beta1, apis/config/v1beta2
//	jobset-0.10, jobset-0.12    sigs.k8s.io/jobset v0.10.1, v0.12.0: api/config/v1alpha1
//	trainer-2.3                 github.com/kubeflow/trainer/v2 v2.3.0: pkg/apis/config/v1alpha1
//
// with `go mod init keys`, `go mod edit -require MODULE@VERSION`, PACKAGE below replaced by the package, and
// `go run -mod=mod .`. Kueue 0.17 is absent: its modules could not be verified by Go's checksum database.
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	config "PACKAGE"
)

var marshaler = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()

func main() {
	found := map[string]bool{}
	walk(reflect.TypeOf(config.Configuration{}), "", found, 0)
	var paths []string
	for path := range found {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	for _, path := range paths {
		fmt.Println(path)
	}
}

func walk(of reflect.Type, path string, found map[string]bool, depth int) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if depth > 12 || reflect.PointerTo(of).Implements(marshaler) {
		return
	}
	switch of.Kind() {
	case reflect.Slice:
		walk(of.Elem(), path+"[]", found, depth+1)
	case reflect.Map:
		walk(of.Elem(), path+"{}", found, depth+1)
	case reflect.Struct:
		for i := 0; i < of.NumField(); i++ {
			field := of.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" || !field.IsExported() {
				continue
			}
			if field.Anonymous && (name == "" || strings.Contains(options, "inline")) {
				walk(field.Type, path, found, depth+1)
				continue
			}
			below := strings.TrimPrefix(path+"."+name, ".")
			found[below] = true
			walk(field.Type, below, found, depth+1)
		}
	}
}
