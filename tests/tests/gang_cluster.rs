//! Gangs on real servers beyond single scenarios: files of the proposal, JobSets as gangs, the CRDs of our own form.

use std::path::Path;
use std::process::Command;

use muster_tests::clients::skip;
use muster_tests::differential::RequestStep;
use muster_tests::embedded_server;
use muster_tests::jobset_cluster::{JOBSETS, items, name, post, wait_for};
use muster_tests::real::{self, GangSupport, RealCluster};
use muster_tree::{Tree, tree};

fn is_missing(test: &str) -> bool {
    let reason = real::missing();
    reason.iter().for_each(|reason| skip(test, reason));
    reason.is_some()
}

/// A manifest in the words of the proposal.
const FILE: &str = "
apiVersion: scheduling.k8s.io/v1alpha1
kind: Workload
metadata: {name: w}
spec: {podGroupTemplates: [{name: t, policy: {gang: {minCount: 2}}}]}
---
apiVersion: scheduling.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g}
spec: {workloadRef: {name: w}, podGroupTemplateRef: {name: t}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {annotations: {muster.dev/sim-run-seconds: '1'}}
    spec:
      schedulerName: muster-scheduler
      restartPolicy: Never
      workloadRef: {name: w, podGroupName: g}
      containers: [{name: c, image: i}]
";

/// What `muster run` says of that file there.
fn run(real: &RealCluster, folder: &Path) -> String {
    let file = folder.join("gang.yaml");
    std::fs::write(&file, FILE).unwrap();
    let kubeconfig = real.kubeconfig(folder, real.server.base()).unwrap();
    let mut command = Command::new(embedded_server::binary().unwrap());
    command.args(["run", "--no-logs", "--timeout", "60s", "-f"]).arg(&file);
    let output = command.arg("--kubeconfig").arg(kubeconfig).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// A real server with nodes, on which Muster is installed and in charge.
fn operated(gangs: GangSupport) -> RealCluster {
    let binary = embedded_server::binary().unwrap();
    let mut real = RealCluster::for_install(gangs).unwrap();
    let installed = real.install(&binary).unwrap();
    real.start_controllers(&["gc", "namespace", "job", "podgc", "node", "podgroup"]).unwrap();
    real.add_simulated_nodes(&binary, 2).unwrap();
    real.start_installed_operator(&binary, &installed, &[]).unwrap();
    real
}

/// Shows: 5832-64.
#[test]
fn files_of_the_proposal_run_on_real_servers() {
    if is_missing("files_of_the_proposal_run_on_real_servers") {
        return;
    }
    for (gangs, says) in [
        (GangSupport::AllFields, "scheduling.k8s.io/v1beta1"),
        (GangSupport::Absent, "scheduling.muster.dev/v1alpha1"),
    ] {
        let real = operated(gangs);
        let folder = tempfile::tempdir().unwrap();
        let said = run(&real, folder.path());
        assert!(said.contains(says), "{gangs:?}: {said}");
    }
}

/// JobSets as gangs: the last pods of one do not wait for those that are done, and another is placed anew when it restarts.
const GANG_JOBSETS: &str = r"
- metadata: {name: few, annotations: {scheduling.muster.dev/gang: AllReplicas}}
  spec:
    replicatedJobs:
    - {name: w, template: {spec: {parallelism: 2, completions: 3, template: {metadata: {annotations: {muster.dev/sim-run-seconds: '1'}}, spec: &spec
        {schedulerName: muster-scheduler, restartPolicy: Never, containers: [{name: c, image: i}]}}}}}
- metadata: {name: breaks, annotations: {scheduling.muster.dev/gang: PerReplicatedJob}}
  spec:
    failurePolicy: {maxRestarts: 1}
    replicatedJobs:
    - {name: w, template: {spec: {backoffLimit: 0, template: {metadata: {annotations: {muster.dev/sim-run-seconds: '1', muster.dev/sim-exit-code: '3'}}, spec: *spec}}}}
";

/// Shows: 5832-45, 5832-50.
#[test]
fn jobsets_are_gangs_on_real_servers() {
    if is_missing("jobsets_are_gangs_on_real_servers") {
        return;
    }
    for (gangs, group) in [
        (GangSupport::AllFields, "scheduling.k8s.io/v1beta1"),
        (GangSupport::Absent, "scheduling.muster.dev/v1alpha1"),
    ] {
        let real = operated(gangs);
        for set in Tree::parse_yaml(GANG_JOBSETS).unwrap().items() {
            let set = set.merge(&tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}));
            wait_for("JobSets are admitted", || {
                let made = post(&real.server, JOBSETS, &set)?;
                if matches!(made.code, 201 | 409) { Ok(()) } else { Err(made.body.to_json()) }
            });
        }
        for (set, state) in [("few", "Completed"), ("breaks", "Failed")] {
            wait_for("their ends", || {
                let found = real.server.get(&format!("{JOBSETS}/{set}"))?.body;
                let is = found.str_at(&["status", "terminalState"]);
                if is == state { Ok(()) } else { Err(format!("{set} is {is:?} on {gangs:?}: {found}")) }
            });
        }
        let all = |plural: &str| items(&real.server, &format!("/apis/{group}/namespaces/default/{plural}"));
        let names = |plural: &str| all(plural).iter().map(name).map(str::to_owned).collect::<Vec<_>>();
        wait_for("the group of the first attempt goes", || {
            let left = names("podgroups");
            if left == ["breaks-w-r1", "few"] { Ok(()) } else { Err(format!("{left:?}")) }
        });
        assert_eq!(names("workloads"), ["breaks", "few"]);
        for object in all("workloads").iter().chain(&all("podgroups")) {
            let owners = object.items_at(&["metadata", "ownerReferences"]);
            assert_eq!(owners[0].str_at(&["kind"]), "JobSet", "{object}");
        }
    }
}

/// The CEL rules of our CRDs hold on a real server for every client.
///
/// Shows: 5832-63.
#[test]
fn definitions_of_gangs_are_served_and_their_rules_hold() {
    if is_missing("definitions_of_gangs_are_served_and_their_rules_hold") {
        return;
    }
    let binary = embedded_server::binary().unwrap();
    let real = RealCluster::for_install(GangSupport::Absent).unwrap();
    real.install(&binary).unwrap();
    let all = "/apis/scheduling.muster.dev/v1alpha1/namespaces/default";
    let send = |method: &str, sort: &str, path: &str, body: &Tree| {
        let step = RequestStep { kind: sort.to_owned(), ..RequestStep::default() };
        real.server.send(method, &format!("{all}/{path}"), &step, body.to_json_bytes()).unwrap()
    };
    let group = |spec: &Tree| tree!({"apiVersion": "scheduling.muster.dev/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec.clone()});
    let good = tree!({"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"});
    let both = good.with(&["podGroupTemplateRef", "name"], "u");
    let refused = send("POST", "", "podgroups", &group(&both));
    assert_eq!(refused.code, 422, "{}", refused.body.to_json());
    assert!(refused.body.str_at(&["message"]).contains("must agree"), "{}", refused.body.to_json());
    assert_eq!(send("POST", "", "podgroups", &group(&good)).code, 201);
    let moved = send("PATCH", "merge", "podgroups/g", &tree!({"spec": {"workloadRef": {"name": "v"}}}));
    assert_eq!(moved.code, 422);
    assert!(moved.body.str_at(&["message"]).contains("field is immutable"), "{}", moved.body.to_json());
    let status = tree!({"spec": {"podGroupTemplateName": "u"}, "status": {"scheduledPods": 2}});
    let told = send("PATCH", "merge", "podgroups/g/status", &status);
    assert_eq!(told.body.int_at(&["status", "scheduledPods"]), Some(2));
    assert_eq!(told.body.str_at(&["spec", "podGroupTemplateName"]), "t", "spec and status are written apart");
    let kept = send("PATCH", "merge", "podgroups/g", &tree!({"status": {"scheduledPods": 7}}));
    assert_eq!(kept.body.int_at(&["status", "scheduledPods"]), Some(2));
}
