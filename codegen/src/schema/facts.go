// Prints facts of Go's types that the published schemas lack: which fields are omitted when zero, which are always written, which are
// pointers (all others), and the field names in protobuf.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"sort"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	resourcebeta1 "k8s.io/api/resource/v1beta1"
	resourcebeta2 "k8s.io/api/resource/v1beta2"
	scheduling "k8s.io/api/scheduling/v1"
	schedulingbeta1 "k8s.io/api/scheduling/v1beta1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var groups = []func(*runtime.Scheme) error{
	admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme,
	autoscaling.AddToScheme, batch.AddToScheme, coordination.AddToScheme, core.AddToScheme, discovery.AddToScheme,
	events.AddToScheme, networking.AddToScheme, node.AddToScheme, policy.AddToScheme, rbac.AddToScheme,
	resource.AddToScheme, resourcebeta1.AddToScheme, resourcebeta2.AddToScheme, scheduling.AddToScheme,
	schedulingbeta1.AddToScheme, storage.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
}

// facts of one struct type. Fields are named as in JSON, those of inlined structs included.
type facts struct {
	// Dropped when zero.
	Dropped []string `json:"dropped,omitempty"`
	// Always written.
	Written []string `json:"written,omitempty"`
	// Pointers whose absence is written as null.
	Null []string `json:"null,omitempty"`
	// Inlined structs, by their name in protobuf.
	Inline []string `json:"inline,omitempty"`
	// Name in protobuf to name in JSON, where they differ.
	Renamed map[string]string `json:"renamed,omitempty"`
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range groups {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	all := map[string]*facts{}
	for _, t := range scheme.AllKnownTypes() {
		walk(t, all)
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		panic(err)
	}
}

// name is the type's name in published OpenAPI: k8s.io/api/core/v1 Pod is io.k8s.api.core.v1.Pod.
func name(t reflect.Type) string {
	return "io.k8s." + strings.ReplaceAll(strings.TrimPrefix(t.PkgPath(), "k8s.io/"), "/", ".") + "." + t.Name()
}

func walk(t reflect.Type, all map[string]*facts) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walk(t.Elem(), all)
		return
	case reflect.Struct:
	default:
		return
	}
	if !strings.HasPrefix(t.PkgPath(), "k8s.io/") || all[name(t)] != nil {
		return
	}
	own := &facts{Renamed: map[string]string{}}
	all[name(t)] = own
	for i := range t.NumField() {
		field := t.Field(i)
		walk(field.Type, all)
		wire := wireName(field)
		if isInline(field) {
			if wire != "" {
				own.Inline = append(own.Inline, wire)
			}
			if from := all[name(field.Type)]; from != nil {
				own.Dropped = append(own.Dropped, from.Dropped...)
				own.Written = append(own.Written, from.Written...)
				own.Null = append(own.Null, from.Null...)
			}
			continue
		}
		jsonName, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if jsonName == "" || jsonName == "-" {
			continue
		}
		if wire != "" && wire != jsonName {
			own.Renamed[wire] = jsonName
		}
		switch presence(field.Type, options) {
		case "dropped":
			own.Dropped = append(own.Dropped, jsonName)
		case "written":
			own.Written = append(own.Written, jsonName)
		case "null":
			own.Null = append(own.Null, jsonName)
		}
	}
	sort.Strings(own.Dropped)
	sort.Strings(own.Written)
	sort.Strings(own.Null)
}

func isInline(field reflect.StructField) bool {
	jsonName, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	return jsonName == "" && (strings.Contains(options, "inline") || field.Anonymous)
}

// wireName is the field's name in the .proto file; empty when it is not on the wire.
func wireName(field reflect.StructField) string {
	tag := field.Tag.Get("protobuf")
	if tag == "" || tag == "-" {
		return ""
	}
	for _, part := range strings.Split(tag, ",") {
		if found, ok := strings.CutPrefix(part, "name="); ok {
			return found
		}
	}
	return strings.ToLower(field.Name[:1]) + field.Name[1:]
}

// presence returns how Go's encoder writes the zero value of a field.
func presence(t reflect.Type, options string) string {
	isEmptyOmitted := strings.Contains(options, "omitempty")
	isZeroOmitted := strings.Contains(options, "omitzero")
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		if isEmptyOmitted || isZeroOmitted {
			return "pointer"
		}
		return "null"
	case reflect.Struct:
		if isZeroOmitted {
			return "dropped"
		}
		return "written"
	default:
		if isEmptyOmitted || isZeroOmitted {
			return "dropped"
		}
		return "written"
	}
}
