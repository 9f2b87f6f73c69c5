//! A JobSet across a restart of the server under other feature gates.

use muster_tests::embedded_server::RestartableServer;
use muster_tests::jobsets::{self, GateSet, JobSetScenario};
use muster_tree::{Tree, from_tree};

/// What happens while the gate of claim templates is on.
const ON: &str = "
name: with the gate
devices: 1
set:
  jobs:
  - {name: a}
  - name: b
    after: {a: Complete}
    resourceClaimTemplates: [{metadata: {name: c}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: 'gpu-{ns}'}}]}}}]
steps:
- until: {status: {replicatedJobsStatus: [{name: a, ready: 1}]}}
";
/// And when the next start turned it off.
const OFF: &str = "
name: without it
steps:
- end: {job: js-a-0, exit: 0}
- event: {reason: ResourceClaimTemplatesDisabled, type: Warning}
- stays: {seconds: 1, what: [{count: {kind: Job, count: 1}}, {count: {kind: ResourceClaim, count: 0}}]}
- delete: Background
- gone: {kind: JobSet, name: js}
- count: {kind: Job, count: 0}
";

/// Shows: 762-41.
#[test]
fn without_their_gate_claim_templates_hold_the_jobs_that_have_them() {
    let read = |text: &str| from_tree::<JobSetScenario>(&Tree::parse_yaml(text).unwrap()).unwrap();
    let mut plane = RestartableServer::with_args(&["--sim-nodes", "2"]).unwrap();
    jobsets::run_scenario(&plane.server().unwrap(), &read(ON), "held").unwrap();
    plane.kill();
    plane.set_args(&["--sim-nodes", "2", "--feature-gates", GateSet::Claimless.flag()]);
    plane.restart().unwrap();
    jobsets::run_scenario(&plane.server().unwrap(), &read(OFF), "held").unwrap();
}
