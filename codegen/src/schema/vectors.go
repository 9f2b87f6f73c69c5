// Prints objects in JSON and in protobuf, as Go clients send them: a few realistic ones, and every kind with all fields set, once with
// ordinary values and once with pointers to zero values.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

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
	resourceone "k8s.io/api/resource/v1"
	resourcebeta1 "k8s.io/api/resource/v1beta1"
	resourcebeta2 "k8s.io/api/resource/v1beta2"
	scheduling "k8s.io/api/scheduling/v1"
	schedulingbeta1 "k8s.io/api/scheduling/v1beta1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var groups = []func(*runtime.Scheme) error{
	admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme,
	autoscaling.AddToScheme, batch.AddToScheme, coordination.AddToScheme, core.AddToScheme, discovery.AddToScheme,
	events.AddToScheme, networking.AddToScheme, node.AddToScheme, policy.AddToScheme, rbac.AddToScheme,
	resourceone.AddToScheme, resourcebeta1.AddToScheme, resourcebeta2.AddToScheme, scheduling.AddToScheme,
	schedulingbeta1.AddToScheme, storage.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
}

// vector is one object in both forms.
type vector struct {
	Name  string          `json:"name"`
	JSON  json.RawMessage `json:"json"`
	Proto []byte          `json:"proto"`
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range groups {
		check(add(scheme))
	}
	var all []vector
	for _, one := range real() {
		all = append(all, both(scheme, one.name, one.object))
	}
	for _, kind := range kinds(scheme) {
		for _, fill := range []filler{{word: "filled"}, {word: "zeros", zeros: true}} {
			object, err := scheme.New(kind)
			check(err)
			fill.value(reflect.ValueOf(object).Elem(), 0)
			object.GetObjectKind().SetGroupVersionKind(kind)
			all = append(all, both(scheme, kind.Kind+" "+kind.GroupVersion().String()+" "+fill.word, object))
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(all))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// kinds that are sent as bodies, sorted. Those with a whole Pod inside are left to Job and Pod: they are long.
func kinds(scheme *runtime.Scheme) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for kind := range scheme.AllKnownTypes() {
		isLong := kind.Group == "apps" && kind.Kind != "ControllerRevision" && kind.Kind != "Scale"
		isLong = isLong || kind.Kind == "CronJob" || kind.Kind == "ReplicationController" || kind.Kind == "PodTemplate"
		isMeta := kind.Kind == "DeleteOptions" && kind.Group != "" || kind.Kind == "WatchEvent"
		isQuery := strings.HasSuffix(kind.Kind, "Options") && kind.Kind != "DeleteOptions"
		isUnversioned := kind.Version == runtime.APIVersionInternal || strings.HasPrefix(kind.Kind, "API")
		other := kind.Kind == "HorizontalPodAutoscaler" || kind.Kind == "RangeAllocation" ||
			kind.Kind == "SerializedReference" || kind.Kind == "PodStatusResult" || kind.Kind == "ComponentStatus" ||
			kind.Kind == "ConversionReview" || kind.Kind == "PriorityClass" && kind.Version == "v1beta1"
		if isLong || isMeta || isQuery || isUnversioned || other || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		all = append(all, kind)
	}
	sort.Slice(all, func(a, b int) bool { return all[a].String() < all[b].String() })
	return all
}

func both(scheme *runtime.Scheme, name string, object runtime.Object) vector {
	var wire bytes.Buffer
	check(protobuf.NewSerializer(scheme, scheme).Encode(object, &wire))
	text, err := json.Marshal(object)
	check(err)
	return vector{Name: name, JSON: text, Proto: wire.Bytes()}
}

// filler sets every field. Types that contain themselves are entered to a small depth.
type filler struct {
	word  string
	zeros bool
}

const depthMax = 14

var instant = time.Date(2026, 7, 8, 9, 10, 11, 123456000, time.UTC)

func (f filler) value(v reflect.Value, depth int) {
	if depth > depthMax || f.special(v, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct && depth > depthMax-2 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		isScalar := v.Elem().Kind() != reflect.Struct && v.Elem().Kind() != reflect.Slice
		if !f.zeros || !isScalar {
			f.value(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("protobuf") != "-" && v.Type().Field(i).Type != reflect.TypeFor[meta.TypeMeta]() {
				f.value(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("bytes"))
			return
		}
		if depth > depthMax-2 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.value(v.Index(0), depth+1)
	case reflect.Map:
		if depth > depthMax-2 {
			return
		}
		value := reflect.New(v.Type().Elem()).Elem()
		f.value(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	default:
		f.scalar(v)
	}
}

func (f filler) scalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(!f.zeros)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if !f.zeros {
			v.SetInt(7)
		}
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(2.5)
	}
}

// special fills types with a JSON form of their own.
func (f filler) special(v reflect.Value, depth int) bool {
	switch to := v.Addr().Interface().(type) {
	case *meta.Time:
		*to = meta.NewTime(instant.Truncate(time.Second))
	case *meta.MicroTime:
		*to = meta.NewMicroTime(instant)
	case *meta.Duration:
		to.Duration = 90 * time.Second
	case *meta.FieldsV1:
		to.SetRawString(`{"f:spec":{"f:a":{}}}`)
	case *resource.Quantity:
		*to = resource.MustParse("1500m")
	case *intstr.IntOrString:
		*to = intstr.FromString("25%")
		if f.zeros {
			*to = intstr.FromInt32(0)
		}
	case *runtime.RawExtension:
		to.Raw = []byte(`{"a":[1,"b"]}`)
	case *apiextensions.JSON:
		to.Raw = []byte(`{"c":null}`)
	case *apiextensions.JSONSchemaPropsOrArray:
		to.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
	case *apiextensions.JSONSchemaPropsOrBool:
		if !f.zeros {
			to.Allows = true
			to.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		to.Property = []string{"a"}
	case *apiextensions.JSONSchemaProps:
		if depth > 8 {
			to.Type = "object"
			return true
		}
		return false
	default:
		return false
	}
	return true
}

func ref[T any](value T) *T { return &value }

type named struct {
	name   string
	object runtime.Object
}

// real objects, with the zero values that matter.
func real() []named {
	typed := func(version, kind string) meta.TypeMeta { return meta.TypeMeta{APIVersion: version, Kind: kind} }
	object := func(name string) meta.ObjectMeta { return meta.ObjectMeta{Name: name, Namespace: "default"} }
	pod := core.PodSpec{
		RestartPolicy:                 core.RestartPolicyNever,
		TerminationGracePeriodSeconds: ref(int64(0)),
		Containers: []core.Container{{
			Name: "main", Image: "busybox:1.36", Command: []string{"sh", "-c", "true", ""},
			Resources:     core.ResourceRequirements{Requests: core.ResourceList{"cpu": resource.MustParse("100m")}},
			Ports:         []core.ContainerPort{{ContainerPort: 80}},
			Env:           []core.EnvVar{{Name: "EMPTY"}, {Name: "HOST", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "status.hostIP"}}}},
			EnvFrom:       []core.EnvFromSource{{ConfigMapRef: &core.ConfigMapEnvSource{LocalObjectReference: core.LocalObjectReference{Name: "c"}}}},
			LivenessProbe: &core.Probe{ProbeHandler: core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Port: intstr.FromString("http")}}},
		}},
		Volumes: []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}},
	}
	return []named{
		{"a Pod", &core.Pod{TypeMeta: typed("v1", "Pod"), ObjectMeta: object("p"), Spec: pod}},
		{"a Job that may not fail", &batch.Job{TypeMeta: typed("batch/v1", "Job"), ObjectMeta: object("j"),
			Spec: batch.JobSpec{BackoffLimit: ref(int32(0)), Suspend: ref(false), Template: core.PodTemplateSpec{Spec: pod}}}},
		{"a claim without a class", &core.PersistentVolumeClaim{TypeMeta: typed("v1", "PersistentVolumeClaim"), ObjectMeta: object("c"),
			Spec: core.PersistentVolumeClaimSpec{StorageClassName: ref(""), AccessModes: []core.PersistentVolumeAccessMode{"ReadWriteOnce"},
				Resources: core.VolumeResourceRequirements{Requests: core.ResourceList{"storage": resource.MustParse("1Gi")}}}}},
		{"an account without a token", &core.ServiceAccount{TypeMeta: typed("v1", "ServiceAccount"), ObjectMeta: object("a"), AutomountServiceAccountToken: ref(false)}},
		{"a ConfigMap with an empty value", &core.ConfigMap{TypeMeta: typed("v1", "ConfigMap"), ObjectMeta: object("m"),
			Data: map[string]string{"b": "", "a": "x"}, BinaryData: map[string][]byte{"z": {0, 255}}, Immutable: ref(false)}},
		{"a Secret", &core.Secret{TypeMeta: typed("v1", "Secret"), ObjectMeta: object("s"), Data: map[string][]byte{"k": []byte("v"), "e": {}}, Type: core.SecretTypeOpaque}},
		{"a Namespace", &core.Namespace{TypeMeta: typed("v1", "Namespace"), ObjectMeta: meta.ObjectMeta{Name: "n"}}},
		{"a Node", &core.Node{TypeMeta: typed("v1", "Node"), ObjectMeta: meta.ObjectMeta{Name: "n"}, Spec: core.NodeSpec{Unschedulable: false},
			Status: core.NodeStatus{Capacity: core.ResourceList{"cpu": resource.MustParse("0"), "memory": resource.MustParse("1Gi")}}}},
		{"an Event", &core.Event{TypeMeta: typed("v1", "Event"), ObjectMeta: object("e"), InvolvedObject: core.ObjectReference{Kind: "Pod", Name: "p"},
			FirstTimestamp: meta.NewTime(instant), Count: 1}},
		{"a Lease", &coordination.Lease{TypeMeta: typed("coordination.k8s.io/v1", "Lease"), ObjectMeta: object("l"),
			Spec: coordination.LeaseSpec{HolderIdentity: ref("me"), RenewTime: ref(meta.NewMicroTime(instant)), LeaseTransitions: ref(int32(0))}}},
		{"a CRD", &apiextensions.CustomResourceDefinition{TypeMeta: typed("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ObjectMeta: meta.ObjectMeta{Name: "x"},
			Spec: apiextensions.CustomResourceDefinitionSpec{Group: "g", Scope: "Namespaced", Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true,
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object",
					Properties: map[string]apiextensions.JSONSchemaProps{"spec": {Type: "integer", Minimum: ref(1.0), Maximum: ref(0.0), Default: &apiextensions.JSON{Raw: []byte("0")},
						XPreserveUnknownFields: ref(true), Enum: []apiextensions.JSON{{Raw: []byte(`"a"`)}, {Raw: []byte("null")}}}}}}}}}}},
		{"a ResourceClaim", &resourceone.ResourceClaim{TypeMeta: typed("resource.k8s.io/v1", "ResourceClaim"), ObjectMeta: object("r"),
			Spec: resourceone.ResourceClaimSpec{Devices: resourceone.DeviceClaim{Requests: []resourceone.DeviceRequest{{Name: "gpu",
				Exactly: &resourceone.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2, AdminAccess: ref(false)}}}}}}},
		{"DeleteOptions", &meta.DeleteOptions{TypeMeta: typed("batch/v1", "DeleteOptions"), GracePeriodSeconds: ref(int64(0)), PropagationPolicy: ref(meta.DeletePropagationForeground)}},
		{"DeleteOptions of nobody's group", &meta.DeleteOptions{TypeMeta: typed("example.com/v1", "DeleteOptions"), Preconditions: &meta.Preconditions{}}},
		{"a review", &authorization.SelfSubjectAccessReview{TypeMeta: typed("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
			Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{Verb: "get", Resource: "pods"}}}},
		{"a review of a user", &authorization.SubjectAccessReview{TypeMeta: typed("authorization.k8s.io/v1", "SubjectAccessReview"),
			Spec: authorization.SubjectAccessReviewSpec{User: "u", Extra: map[string]authorization.ExtraValue{"k": {"a", ""}}}}},
		{"an Eviction", &policy.Eviction{TypeMeta: typed("policy/v1", "Eviction"), ObjectMeta: object("p"), DeleteOptions: &meta.DeleteOptions{GracePeriodSeconds: ref(int64(0))}}},
		{"a Binding", &core.Binding{TypeMeta: typed("v1", "Binding"), ObjectMeta: object("p"), Target: core.ObjectReference{Kind: "Node", Name: "n"}}},
		{"a Scale", &autoscaling.Scale{TypeMeta: typed("autoscaling/v1", "Scale"), ObjectMeta: object("d"), Spec: autoscaling.ScaleSpec{Replicas: 0}}},
		{"a TokenRequest", &authentication.TokenRequest{TypeMeta: typed("authentication.k8s.io/v1", "TokenRequest"), Spec: authentication.TokenRequestSpec{Audiences: []string{"a"}}}},
	}
}
