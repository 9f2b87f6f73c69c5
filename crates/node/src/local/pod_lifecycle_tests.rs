//! Pod lifecycles on a simulated host: which action happens when.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::pod_run_spec::PodRunSpec;
use muster_api::time::Time;
use muster_process::{ExitReason, ExitRecord, RunState};
use muster_tree::{Tree, tree};

use super::pod_lifecycle::{ContainerCheck, PodLifecycle, SyncAction, SyncInput, TerminationCause};
use super::pod_status::report;

/// Behaviour of a container's runs: exits after some seconds with a code, exits on SIGTERM, or ignores it.
#[derive(Clone, Copy)]
enum RunScript {
    Ends(u64, i32),
    Obeys,
    Ignores,
}

struct FakeHost {
    scripts: BTreeMap<&'static str, Vec<RunScript>>,
    /// Time ranges in which checks fail, by container.
    failing: Vec<(&'static str, ContainerCheck, std::ops::Range<u64>)>,
    deleted_at: Option<(u64, u64)>,
    /// Image pulls fail before this time.
    pulls_from: u64,
}

fn at(secs: u64) -> Time {
    Time(1_700_000_000_000_000) + Duration::from_secs(secs)
}

fn secs(time: Time) -> u64 {
    time.since(at(0)).as_secs()
}

fn ended(since: Time, until: Time, code: i32) -> RunState {
    RunState::Exited(ExitRecord {
        since_micros: Some(since.0),
        until_micros: until.0,
        code,
        signal: None,
        why: ExitReason::Exited,
        message: String::new(),
    })
}

fn not_pulled(now: Time) -> RunState {
    RunState::Exited(ExitRecord {
        since_micros: None,
        until_micros: now.0,
        code: 128,
        signal: None,
        why: ExitReason::ImageNotPulled,
        message: "no such host".to_owned(),
    })
}

impl FakeHost {
    fn of(scripts: &[(&'static str, &[RunScript])]) -> FakeHost {
        let scripts = scripts.iter().map(|(name, runs)| (*name, runs.to_vec())).collect();
        FakeHost { scripts, failing: Vec::new(), deleted_at: None, pulls_from: 0 }
    }

    fn script(&self, name: &str, attempt: u32) -> RunScript {
        let runs = &self.scripts[name];
        *runs.get(attempt as usize).or(runs.last()).expect("a script has a run")
    }

    /// Runs until the pod has terminated or `until`; returns the actions and the final status patch.
    fn play(&self, pod: &Tree, until: u64) -> (Vec<String>, Tree) {
        let work = PodRunSpec::of(pod);
        let (mut life, mut now, mut lines) = (PodLifecycle::new(&work), at(0), Vec::new());
        let mut asked_to_stop = vec![false; work.containers.len()];
        while secs(now) <= until && !life.is_terminated() {
            let mut due = self.advance_runs(&work, &mut life, &asked_to_stop, now);
            let delete_by =
                self.deleted_at.filter(|(when, _)| at(*when) <= now).map(|(when, grace)| at(when + grace));
            let asked = SyncInput { since: at(0), delete_by, ..SyncInput::default() };
            let next = life.sync(&work, &asked, now);
            due.extend(next.requeue_at);
            due.extend(self.deleted_at.map(|(when, _)| at(when)));
            let idle = next.actions.is_empty();
            for action in next.actions {
                self.perform(&work, &mut life, action, now, &mut asked_to_stop, &mut lines);
            }
            if idle {
                let Some(later) = due.into_iter().filter(|time| *time > now).min() else { break };
                now = later;
            }
        }
        let status = report(pod, &work, &life, now);
        let addresses = muster_api::pod_status::PodAddresses { host: "h".into(), pod: "p".into() };
        (lines, status.patch(pod, &addresses, now))
    }

    /// Applies starts and exits that are due; returns the times of the next exits.
    fn advance_runs(
        &self,
        work: &PodRunSpec,
        life: &mut PodLifecycle,
        asked: &[bool],
        now: Time,
    ) -> Vec<Time> {
        let mut due = Vec::new();
        for (number, (one, record)) in work.containers.iter().zip(&mut life.containers).enumerate() {
            if record.state == Some(RunState::Starting) {
                let state = match secs(now) < self.pulls_from {
                    true => not_pulled(now),
                    false => RunState::Running { since: now },
                };
                record.observe_state(one, Some(state));
            }
            let (Some(since), Some(attempt)) = (record.running_since(), record.attempt) else { continue };
            match self.script(&one.name, attempt) {
                RunScript::Ends(after, code) => {
                    let end = since + Duration::from_secs(after);
                    match now >= end {
                        true => record.state = Some(ended(since, now, code)),
                        false => due.push(end),
                    }
                }
                RunScript::Obeys if asked[number] => record.state = Some(ended(since, now, 143)),
                RunScript::Obeys | RunScript::Ignores => {}
            }
        }
        due
    }

    fn perform(
        &self,
        work: &PodRunSpec,
        life: &mut PodLifecycle,
        action: SyncAction,
        now: Time,
        asked: &mut [bool],
        lines: &mut Vec<String>,
    ) {
        let name = |at: usize| work.containers[at].name.to_string();
        let line = match action {
            SyncAction::Start(one, attempt) => {
                life.start_run(one, attempt);
                asked[one] = false;
                Some(format!("start {} {attempt}", name(one)))
            }
            SyncAction::Signal(one, signal) => {
                asked[one] = true;
                Some(format!("signal {} {signal}", name(one)))
            }
            SyncAction::Kill(one) => {
                let since = life.containers[one].running_since().unwrap_or(now);
                life.containers[one].state = Some(ended(since, now, 137));
                Some(format!("kill {}", name(one)))
            }
            SyncAction::Check(one, what) => {
                let fails = self.failing.iter().any(|(container, looks, when)| {
                    *container == name(one) && *looks == what && when.contains(&secs(now))
                });
                let found = if fails { Err("no".to_owned()) } else { Ok(()) };
                for action in life.record_check(work, one, what, found, now).actions {
                    self.perform(work, life, action, now, asked, lines);
                }
                matches!(what, ContainerCheck::PreStop | ContainerCheck::PostStart)
                    .then(|| format!("{what:?} {}", name(one)))
            }
            SyncAction::Note(_, reason, message) => {
                matches!(reason, "Unhealthy" | "FailedPostStartHook").then(|| format!("{reason} {message}"))
            }
        };
        lines.extend(line.map(|line| format!("{:>3} {line}", secs(now))));
    }
}

fn pod(spec: Tree) -> Tree {
    tree!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
}

fn phase_of(patch: &Tree) -> &str {
    patch.str_at(&["status", "phase"])
}

#[test]
fn lifecycles() {
    use RunScript::{Ends, Ignores, Obeys};
    let one = |policy: &str| pod(tree!({"restartPolicy": policy, "containers": [{"name": "a"}]}));
    let with_init = pod(tree!({"restartPolicy": "Never",
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}, {"name": "j"}],
        "containers": [{"name": "a"}, {"name": "b"}]}));
    let limited = pod(tree!({"restartPolicy": "Never", "activeDeadlineSeconds": 5,
        "terminationGracePeriodSeconds": 3, "containers": [{"name": "a"}]}));
    for (what, pod, player, until, want_phase, want) in [
        (
            "it ends well",
            one("Never"),
            FakeHost::of(&[("a", &[Ends(3, 0)])]),
            60,
            "Succeeded",
            &["  0 start a 0"][..],
        ),
        (
            "it ends badly",
            one("Never"),
            FakeHost::of(&[("a", &[Ends(3, 7)])]),
            60,
            "Failed",
            &["  0 start a 0"],
        ),
        (
            "the first restart at once, then after ten, twenty, forty seconds",
            one("OnFailure"),
            FakeHost::of(&[("a", &[Ends(1, 1), Ends(1, 1), Ends(1, 1), Ends(1, 0)])]),
            300,
            "Succeeded",
            &["  0 start a 0", "  1 start a 1", " 12 start a 2", " 33 start a 3"],
        ),
        (
            "a long run forgives",
            one("Always"),
            FakeHost::of(&[("a", &[Ends(1, 1), Ends(1, 1), Ends(700, 1), Ends(9999, 0)])]),
            800,
            "Running",
            &["  0 start a 0", "  1 start a 1", " 12 start a 2", "712 start a 3"],
        ),
        (
            "init containers one by one, a sidecar beside them and after them, which goes last",
            with_init.clone(),
            FakeHost::of(&[
                ("i", &[Ends(2, 0)]),
                ("s", &[Obeys]),
                ("j", &[Ends(1, 0)]),
                ("a", &[Ends(4, 0)]),
                ("b", &[Ends(2, 0)]),
            ]),
            60,
            "Succeeded",
            &[
                "  0 start i 0",
                "  2 start s 0",
                "  2 start j 0",
                "  3 start a 0",
                "  3 start b 0",
                "  7 signal s 15",
            ],
        ),
        (
            "a failed init container ends it all",
            with_init.clone(),
            FakeHost::of(&[
                ("i", &[Ends(2, 0)]),
                ("s", &[Obeys]),
                ("j", &[Ends(1, 3)]),
                ("a", &[Obeys]),
                ("b", &[Obeys]),
            ]),
            60,
            "Failed",
            &["  0 start i 0", "  2 start s 0", "  2 start j 0", "  3 signal s 15"],
        ),
        (
            "a sidecar that dies comes back",
            with_init,
            FakeHost::of(&[
                ("i", &[Ends(1, 0)]),
                ("s", &[Ends(3, 1), Obeys]),
                ("j", &[Ends(1, 0)]),
                ("a", &[Ends(6, 0)]),
                ("b", &[Ends(1, 0)]),
            ]),
            60,
            "Succeeded",
            &[
                "  0 start i 0",
                "  1 start s 0",
                "  1 start j 0",
                "  2 start a 0",
                "  2 start b 0",
                "  4 start s 1",
                "  8 signal s 15",
            ],
        ),
        (
            "too long: asked, then ended by force",
            limited,
            FakeHost::of(&[("a", &[Ignores])]),
            60,
            "Failed",
            &["  0 start a 0", "  5 signal a 15", "  8 kill a"],
        ),
    ] {
        let (lines, status) = player.play(&pod, until);
        assert_eq!(lines, want, "{what}");
        assert_eq!(phase_of(&status), want_phase, "{what}");
    }
}

#[test]
fn failed_image_pulls_back_off_exponentially() {
    let never = pod(tree!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "there/it:1"}]}));
    let mut player = FakeHost::of(&[("a", &[RunScript::Ends(1, 0)])]);
    player.pulls_from = 60;
    let (lines, status) = player.play(&never, 100);
    let want = ["  0 start a 0", " 10 start a 0", " 30 start a 0", " 70 start a 0"];
    assert_eq!(lines, want, "a pull is no run");
    assert_eq!(phase_of(&status), "Succeeded");
    let back_off = "Back-off pulling image \"there/it:1\": ErrImagePull: no such host";
    for (until, reason, message) in [
        (3, "ErrImagePull", "no such host"),
        (7, "ImagePullBackOff", back_off),
        (25, "ImagePullBackOff", back_off),
    ] {
        let (_, status) = player.play(&never, until);
        assert_eq!(phase_of(&status), "Pending", "until {until}");
        let told = status.items_at(&["status", "containerStatuses"])[0].clone();
        let waiting = |key: &str| told.str_at(&["state", "waiting", key]).to_owned();
        assert_eq!((waiting("reason").as_str(), waiting("message").as_str()), (reason, message));
        assert_eq!(told.int_at(&["restartCount"]), Some(0));
    }
}

#[test]
fn a_failed_pull_before_a_restart_keeps_the_previous_exit() {
    let pod = pod(tree!({"restartPolicy": "Always", "containers": [{"name": "a", "image": "x"}]}));
    let work = PodRunSpec::of(&pod);
    let mut life = PodLifecycle::new(&work);
    life.start_run(0, 0);
    life.containers[0].observe_state(&work.containers[0], Some(ended(at(0), at(1), 3)));
    life.sync(&work, &SyncInput::default(), at(1));
    life.start_run(0, 1);
    assert!(
        life.containers[0].observe_state(&work.containers[0], Some(not_pulled(at(2)))),
        "its folder is free again"
    );
    assert_eq!(life.containers[0].attempt, Some(0));
    assert_eq!(life.containers[0].exit_record().map(|end| end.code), Some(3));
    let next = life.sync(&work, &SyncInput::default(), at(2));
    assert!(
        !next.actions.iter().any(|action| matches!(action, SyncAction::Start(..))),
        "not before the pause is over"
    );
}

#[test]
fn active_deadline_may_be_set_or_lowered_later() {
    let pod = pod(tree!({"restartPolicy": "Always", "containers": [{"name": "a"}]}));
    let mut work = PodRunSpec::of(&pod);
    let mut life = PodLifecycle::new(&work);
    let asked = SyncInput { since: at(0), ..SyncInput::default() };
    life.start_run(0, 0);
    life.sync(&work, &asked, at(60));
    assert_eq!(life.ending, None);
    work.update(&pod.with(&["spec", "activeDeadlineSeconds"], 90));
    assert_eq!(life.sync(&work, &asked, at(60)).requeue_at, Some(at(90)));
    work.update(&pod.with(&["spec", "activeDeadlineSeconds"], 30));
    life.sync(&work, &asked, at(60));
    assert_eq!(life.ending.as_ref().map(|ending| ending.why), Some(TerminationCause::Deadline));
}

#[test]
fn deletion_waits_for_the_grace_period() {
    use RunScript::{Ignores, Obeys};
    let hooked = pod(
        tree!({"restartPolicy": "Always", "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "stopSignal": "SIGUSR1"}}]}),
    );
    let mut player = FakeHost::of(&[("s", &[Obeys]), ("a", &[Obeys])]);
    player.deleted_at = Some((5, 30));
    let (lines, status) = player.play(&hooked, 60);
    let want = ["  0 start s 0", "  0 start a 0", "  5 PreStop a", "  5 signal a 10", "  5 signal s 15"];
    assert_eq!(lines, want);
    assert_eq!(phase_of(&status), "Failed", "it was ended by a signal");
    let mut player = FakeHost::of(&[("s", &[Obeys]), ("a", &[Ignores])]);
    player.deleted_at = Some((5, 4));
    let (lines, _) = player.play(&hooked, 60);
    assert_eq!(
        lines[2..],
        ["  5 PreStop a", "  5 signal a 10", "  9 kill a", "  9 kill s"],
        "all by the same time"
    );
    let mut player = FakeHost::of(&[("s", &[Obeys]), ("a", &[Ignores])]);
    player.deleted_at = Some((0, 30));
    let (lines, status) = player.play(&hooked, 60);
    assert_eq!(lines, [""; 0], "what is deleted before it began never begins");
    let state = status.items_at(&["status", "containerStatuses"])[0].clone();
    assert_eq!(state.str_at(&["state", "terminated", "reason"]), "ContainerStatusUnknown");
}

#[test]
fn probes_restart_containers_and_set_readiness() {
    use RunScript::Obeys;
    let probe = |period: i64, failures: i64| tree!({"exec": {"command": ["x"]}, "periodSeconds": period, "failureThreshold": failures});
    let pod = pod(
        tree!({"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 2, "containers": [{"name": "a",
        "startupProbe": probe(2, 5), "livenessProbe": probe(5, 2), "readinessProbe": probe(1, 1)}]}),
    );
    let mut player = FakeHost::of(&[("a", &[Obeys])]);
    player.failing = vec![("a", ContainerCheck::Startup, 0..3), ("a", ContainerCheck::Liveness, 10..20)];
    let (lines, status) = player.play(&pod, 9);
    assert_eq!(
        lines,
        ["  0 start a 0", "  0 Unhealthy Startup probe failed: no", "  2 Unhealthy Startup probe failed: no"]
    );
    let told = status.items_at(&["status", "containerStatuses"])[0].clone();
    assert_eq!((told.bool_at(&["started"]), told.bool_at(&["ready"])), (Some(true), Some(true)));
    let (lines, _) = player.play(&pod, 30);
    let want = [
        " 14 Unhealthy Liveness probe failed: no",
        " 19 Unhealthy Liveness probe failed: no",
        " 19 signal a 15",
        " 19 start a 1",
        " 19 Unhealthy Liveness probe failed: no",
    ];
    assert_eq!(lines[3..], want, "twice in a row it is restarted");
    player.failing = vec![("a", ContainerCheck::Readiness, 3..60)];
    let (_, status) = player.play(&pod, 9);
    let told = status.items_at(&["status", "containerStatuses"])[0].clone();
    assert_eq!(told.bool_at(&["ready"]), Some(false));
    let message = "containers with unready status: [a]";
    let conditions = status.items_at(&["status", "conditions"]);
    assert!(conditions.iter().any(|it| it.str_at(&["message"]) == message), "{conditions:?}");
}

#[test]
fn a_failed_post_start_hook_terminates_the_container() {
    let pod = pod(tree!({"restartPolicy": "Never", "containers": [{"name": "a",
        "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}]}));
    let mut player = FakeHost::of(&[("a", &[RunScript::Obeys])]);
    player.failing = vec![("a", ContainerCheck::PostStart, 0..60)];
    let (lines, status) = player.play(&pod, 60);
    let want = [
        "  0 start a 0",
        "  0 FailedPostStartHook PostStartHook failed: no",
        "  0 PostStart a",
        "  0 signal a 15",
    ];
    assert_eq!(lines, want);
    assert_eq!(phase_of(&status), "Failed");
}

#[test]
fn ephemeral_containers_are_reported_as_unsupported() {
    assert_eq!(super::pod_status::ephemeral(&pod(tree!({}))), None);
    let debugged = pod(tree!({"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}));
    let told = super::pod_status::ephemeral(&debugged).unwrap().items()[0].clone();
    assert_eq!((told.str_at(&["name"]), told.bool_at(&["ready"])), ("debugger", Some(false)));
    assert!(told.str_at(&["state", "waiting", "message"]).contains("kubectl exec"), "{told}");
}
