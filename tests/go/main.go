// A client-go program with default settings: typed clients (with protobuf request bodies), a shared informer (with a streaming list), a
// dynamic client, leader election.
//
// It runs in the namespace of its first argument, prints each passed step, and exits with 0 if all steps pass.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

const patience = 60 * time.Second

// A step returns an error if the server deviates.
type step struct {
	name string
	run  func(context.Context, *world) error
}

type world struct {
	namespace string
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: %s NAMESPACE (with KUBECONFIG set)", os.Args[0])
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	seen := &world{namespace: os.Args[1], config: config}
	if seen.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if seen.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	for _, step := range steps {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := step.run(ctx, seen)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("ok", step.name)
	}
	return nil
}

var steps = []step{
	{"zero values survive a protobuf body", zeroValues},
	{"a typed update needs the newest version", optimisticUpdate},
	{"an informer follows what changes", informer},
	{"typed apply owns its fields", typedApply},
	{"the dynamic client reads what the typed one wrote", dynamicRead},
	{"pages of a list are one snapshot", pages},
	{"a leader is elected", elect},
	{"a collection is deleted by label", deleteCollection},
}

// Pointers to zero must be sent as zero; plain zero values must be omitted.
func zeroValues(ctx context.Context, w *world) error {
	zero, suspend := int32(0), true
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "zero"},
		Spec: batchv1.JobSpec{
			BackoffLimit: &zero,
			Parallelism:  &zero,
			Suspend:      &suspend,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "c", Image: "busybox"}},
			}},
		},
	}
	made, err := w.client.BatchV1().Jobs(w.namespace).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if made.Spec.BackoffLimit == nil || *made.Spec.BackoffLimit != 0 {
		return fmt.Errorf("backoffLimit is %v, not 0", made.Spec.BackoffLimit)
	}
	if made.Spec.ActiveDeadlineSeconds != nil {
		return fmt.Errorf("activeDeadlineSeconds appeared: %d", *made.Spec.ActiveDeadlineSeconds)
	}
	if made.Spec.Completions != nil || *made.Spec.Parallelism != 0 {
		return fmt.Errorf("a work queue of no workers became %v/%v", made.Spec.Completions, *made.Spec.Parallelism)
	}
	return nil
}

func optimisticUpdate(ctx context.Context, w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	made, err := maps.Create(ctx, configMap("counted", "0"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	stale := made.DeepCopy()
	made.Data["n"] = "1"
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	stale.Data["n"] = "2"
	if _, err = maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update got %v, not a conflict", err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		newest, err := maps.Get(ctx, "counted", metav1.GetOptions{})
		if err != nil {
			return err
		}
		newest.Data["n"] = "2"
		_, err = maps.Update(ctx, newest, metav1.UpdateOptions{})
		return err
	})
}

func informer(ctx context.Context, w *world) error {
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(w.namespace))
	maps := factory.Core().V1().ConfigMaps()
	added, changed, gone := make(chan string, 100), make(chan string, 100), make(chan string, 100)
	_, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { added <- o.(*corev1.ConfigMap).Name },
		UpdateFunc: func(_, o any) { changed <- o.(*corev1.ConfigMap).Data["n"] },
		DeleteFunc: func(o any) { gone <- o.(*corev1.ConfigMap).Name },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), maps.Informer().HasSynced) {
		return fmt.Errorf("the cache never synced")
	}
	if _, err := maps.Lister().ConfigMaps(w.namespace).Get("counted"); err != nil {
		return fmt.Errorf("the first list lacks an object: %w", err)
	}
	client := w.client.CoreV1().ConfigMaps(w.namespace)
	if _, err = client.Create(ctx, configMap("watched", "0"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err = await(ctx, added, "watched"); err != nil {
		return err
	}
	patch := []byte(`{"data":{"n":"7"}}`)
	if _, err = client.Patch(ctx, "watched", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err = await(ctx, changed, "7"); err != nil {
		return err
	}
	if err = client.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return await(ctx, gone, "watched")
}

func await(ctx context.Context, from <-chan string, want string) error {
	for {
		select {
		case got := <-from:
			if got == want {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%q never came", want)
		}
	}
}

func typedApply(ctx context.Context, w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	mine := corev1apply.ConfigMap("applied", w.namespace).WithData(map[string]string{"a": "1", "b": "2"})
	if _, err := maps.Apply(ctx, mine, metav1.ApplyOptions{FieldManager: "first"}); err != nil {
		return err
	}
	theirs := corev1apply.ConfigMap("applied", w.namespace).WithData(map[string]string{"a": "9"})
	if _, err := maps.Apply(ctx, theirs, metav1.ApplyOptions{FieldManager: "second"}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a foreign field got %v, not a conflict", err)
	}
	less := corev1apply.ConfigMap("applied", w.namespace).WithData(map[string]string{"a": "1"})
	left, err := maps.Apply(ctx, less, metav1.ApplyOptions{FieldManager: "first"})
	if err != nil {
		return err
	}
	if _, still := left.Data["b"]; still {
		return fmt.Errorf("a field that is no longer applied stayed: %v", left.Data)
	}
	return nil
}

func dynamicRead(ctx context.Context, w *world) error {
	jobs := w.dynamic.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"})
	got, err := jobs.Namespace(w.namespace).Get(ctx, "zero", metav1.GetOptions{})
	if err != nil {
		return err
	}
	limit, found, err := unstructured.NestedInt64(got.Object, "spec", "backoffLimit")
	if err != nil || !found || limit != 0 {
		return fmt.Errorf("backoffLimit: %d, %v, %v", limit, found, err)
	}
	return nil
}

func pages(ctx context.Context, w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	for i := range 7 {
		page := configMap(fmt.Sprintf("page-%d", i), "0")
		page.Labels = map[string]string{"pages": "yes"}
		if _, err := maps.Create(ctx, page, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	options := metav1.ListOptions{LabelSelector: "pages=yes", Limit: 3}
	names := map[string]bool{}
	for {
		list, err := maps.List(ctx, options)
		if err != nil {
			return err
		}
		if len(list.Items) > 3 {
			return fmt.Errorf("a page of %d", len(list.Items))
		}
		for i := range list.Items {
			names[list.Items[i].Name] = true
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if len(names) != 7 {
		return fmt.Errorf("%d of 7 objects came in pages", len(names))
	}
	return nil
}

func elect(ctx context.Context, w *world) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leads := false
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: w.namespace},
		Client:     w.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "the-only-one"},
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		ReleaseOnCancel: true,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leads = true; cancel() },
			OnStoppedLeading: func() {},
		},
	})
	if !leads {
		return fmt.Errorf("nobody led")
	}
	return nil
}

func deleteCollection(ctx context.Context, w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	selected := metav1.ListOptions{LabelSelector: "pages=yes"}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return err
	}
	left, err := maps.List(ctx, selected)
	if err != nil {
		return err
	}
	if len(left.Items) != 0 {
		return fmt.Errorf("%d were left", len(left.Items))
	}
	if _, err = maps.Get(ctx, "counted", metav1.GetOptions{}); err != nil {
		return fmt.Errorf("one too many was deleted: %w", err)
	}
	return nil
}

func configMap(name, n string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": n}}
}
