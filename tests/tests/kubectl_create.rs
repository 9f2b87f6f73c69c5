//! Creating with kubectl: its generators, files in both notations, validation, custom resources.

use muster_tests::clients::{Kubectl, assert_contains, eventually};
use muster_tree::tree;

#[test]
fn create_makes_each_kind_it_knows() {
    let Some(kubectl) = Kubectl::new("create") else { return };
    let cases: &[(&[&str], &str)] = &[
        (&["namespace", "create-other"], "namespace/create-other created"),
        (&["job", "j", "--image=busybox", "--", "sleep", "1"], "job.batch/j created"),
        (&["cronjob", "cj", "--image=busybox", "--schedule=0 3 * * *"], "cronjob.batch/cj created"),
        (&["configmap", "cm", "--from-literal=a=1"], "configmap/cm created"),
        (&["secret", "generic", "s", "--from-literal=p=secret"], "secret/s created"),
        (
            &["secret", "docker-registry", "d", "--docker-username=u", "--docker-password=p"],
            "secret/d created",
        ),
        (&["serviceaccount", "robot"], "serviceaccount/robot created"),
        (&["role", "r", "--verb=get", "--resource=pods"], "role.rbac.authorization.k8s.io/r created"),
        (&["rolebinding", "rb", "--role=r", "--serviceaccount=create:robot"], "rb created"),
        (&["service", "clusterip", "svc", "--tcp=80:8080"], "service/svc created"),
        (&["quota", "q", "--hard=pods=10"], "resourcequota/q created"),
        (&["poddisruptionbudget", "pdb", "--selector=a=b", "--min-available=1"], "pdb created"),
        (&["priorityclass", "create-test", "--value=7"], "create-test created"),
        (&["deployment", "web", "--image=nginx", "--replicas=0"], "deployment.apps/web created"),
    ];
    for (args, want) in cases {
        assert_contains(&kubectl.ok(&[&["create"], *args].concat()), &[want]);
    }
    let job = kubectl.object("job/j");
    assert_eq!(job.int_at(&["spec", "backoffLimit"]), Some(6), "defaults come from the server");
    assert_eq!(kubectl.object("secret/s").str_at(&["data", "p"]), "c2VjcmV0");
    let again = kubectl.run(&["create", "configmap", "cm"]).expect_failure();
    assert_contains(&again, &["configmaps \"cm\" already exists"]);
    let dry = kubectl.ok(&["create", "configmap", "dry", "--dry-run=server"]);
    assert_contains(&dry, &["configmap/dry created (server dry run)"]);
    assert_contains(&kubectl.run(&["get", "configmap", "dry"]).expect_failure(), &["(NotFound)"]);
}

#[test]
fn input_without_effect_is_warned_of_or_refused() {
    let Some(kubectl) = Kubectl::new("create_unsupported") else { return };
    let web = kubectl.run(&["create", "deployment", "web", "--image=nginx"]);
    assert_contains(&web.err, &["Warning: Deployment: no controller creates its pods here"]);
    eventually("an event on the Deployment", || {
        let reasons = kubectl.ok(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
        if reasons.contains("NoController") { Ok(()) } else { Err(reasons) }
    });
    let labelled =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: l, labels: {kueue.x-k8s.io/queue-name: q}}}";
    let made = kubectl.run_with(&["create", "-f", "-"], labelled);
    assert_contains(&made.err, &["kueue.x-k8s.io/queue-name", "not queued"]);
    let plain = kubectl.run(&["create", "configmap", "plain"]);
    assert_eq!(plain.err, "", "an object that is acted on gets no warning");
    let changed = kubectl.run(&["annotate", "configmap", "l", "a=b"]);
    assert_eq!(changed.err, "", "an update is warned of what is new in it");
    let other = kubectl.run(&["get", "pods", "--as", "somebody"]).expect_failure();
    assert_contains(&other, &["has no impersonation"]);
}

#[test]
fn create_from_files_reads_yaml_and_json_and_checks_fields() {
    let Some(kubectl) = Kubectl::new("create_file") else { return };
    let yaml = kubectl.file("two.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y1}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: y2-}\n");
    let made = kubectl.ok(&["create", "-f", &yaml]);
    assert_contains(&made, &["configmap/y1 created", "configmap/y2-"]);
    let json =
        tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "j1"}, "data": {"a": "b"}});
    kubectl.ok_with(&["create", "-f", "-"], &json.to_json());

    let typo = "{apiVersion: v1, kind: ConfigMap, metadata: {name: t}, dta: {a: b}}";
    let refusal = kubectl.run_with(&["create", "-f", "-"], typo).expect_failure();
    assert_contains(&refusal, &["strict decoding error", "unknown field \"dta\""]);
    let warned = kubectl.run_with(&["create", "--validate=warn", "-f", "-"], typo);
    assert_contains(&warned.err, &["Warning: unknown field \"dta\""]);
    assert!(warned.success, "{}", warned.err);

    let wrong = "{apiVersion: batch/v1, kind: Job, metadata: {name: w}, spec: {template: {spec: {restartPolicy: Always, containers: [{name: c, image: x}]}}}}";
    let refusal = kubectl.run_with(&["create", "-f", "-"], wrong).expect_failure();
    assert_contains(&refusal, &["The Job \"w\" is invalid", "spec.template.spec.restartPolicy"]);
    let nowhere = kubectl
        .run_with(&["create", "-f", "-"], "{apiVersion: no.such/v1, kind: Thing, metadata: {name: x}}");
    assert_contains(&nowhere.expect_failure(), &["no matches for kind \"Thing\" in version \"no.such/v1\""]);
}

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trains.rail.example.com}
spec:
  group: rail.example.com
  scope: Namespaced
  names: {plural: trains, singular: train, kind: Train, shortNames: [tr], categories: [rolling-stock]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.cars, statusReplicasPath: .status.cars}}
    additionalPrinterColumns:
    - {name: Engine, type: string, jsonPath: .spec.engine}
    - {name: Cars, type: integer, jsonPath: .spec.cars}
    - {name: Line, type: string, jsonPath: .spec.line, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [engine]
            properties:
              engine: {type: string, enum: [steam, diesel]}
              cars: {type: integer, default: 3, minimum: 1}
              line: {type: string}
            x-kubernetes-validations:
            - {rule: 'self.engine != ''steam'' || self.cars <= 10', message: steam pulls ten cars at most}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

#[test]
fn a_custom_resource_is_as_good_as_a_built_in_one() {
    let Some(kubectl) = Kubectl::new("custom") else { return };
    kubectl.ok_with(&["apply", "-f", "-"], DEFINITION);
    kubectl.ok(&["wait", "--for=condition=Established", "crd/trains.rail.example.com", "--timeout=10s"]);
    let train = |name: &str, spec: &str| {
        format!("{{apiVersion: rail.example.com/v1, kind: Train, metadata: {{name: {name}}}, spec: {spec}}}")
    };
    eventually("the first train", || {
        let said = kubectl.run_with(&["apply", "-f", "-"], &train("first", "{engine: steam, line: coast}"));
        if said.success { Ok(()) } else { Err(said.err) }
    });
    let table = kubectl.ok(&["get", "tr"]);
    assert_contains(&table, &["ENGINE", "CARS", "steam", "3"]);
    assert!(!table.contains("LINE"), "{table}");
    assert_contains(&kubectl.ok(&["get", "trains", "-o", "wide"]), &["LINE", "coast"]);
    // The category is not `all`: tests beside this one get that, and the kind goes at the end.
    assert_contains(&kubectl.ok(&["get", "rolling-stock"]), &["first"]);
    assert_contains(
        &kubectl.ok(&["explain", "train.spec.cars"]),
        &["GROUP:", "rail.example.com", "<integer>"],
    );
    let cases = [
        ("{engine: maglev}", "Unsupported value: \"maglev\""),
        ("{engine: steam, cars: 11}", "steam pulls ten cars at most"),
        ("{engine: diesel, cars: 0}", "should be greater than or equal to 1"),
        ("{cars: 2}", "Required value"),
        ("{engine: diesel, wings: 2}", "unknown field \"spec.wings\""),
    ];
    for (spec, want) in cases {
        assert_contains(
            &kubectl.run_with(&["create", "-f", "-"], &train("bad", spec)).expect_failure(),
            &[want],
        );
    }
    kubectl.ok(&["scale", "train/first", "--replicas=5"]);
    assert_eq!(kubectl.object("train/first").int_at(&["spec", "cars"]), Some(5));
    kubectl.ok(&[
        "patch",
        "train",
        "first",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"at":"sea"}}"#,
    ]);
    assert_eq!(kubectl.object("train/first").str_at(&["status", "at"]), "sea");
    kubectl.ok(&["delete", "crd", "trains.rail.example.com", "--timeout=60s"]);
    eventually("the end of the kind", || {
        let said = kubectl.run(&["get", "--raw", "/apis/rail.example.com/v1/trains"]);
        if said.success { Err(said.out) } else { Ok(()) }
    });
}
