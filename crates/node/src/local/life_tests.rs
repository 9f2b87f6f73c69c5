//! Whole lives of pods on a machine that is played: what happens when, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::pod_work::Work;
use muster_api::time::Time;
use muster_process::{Ended, State, Why};
use muster_tree::{Tree, tree};

use super::life::{Asked, Deed, EndWhy, Life, Looks};
use super::report::report;

/// How the runs of a container go: each ends by itself after some seconds with a code, or when it is asked to, or never.
#[derive(Clone, Copy)]
enum Script {
    Ends(u64, i32),
    Obeys,
    Ignores,
}

struct Player {
    scripts: BTreeMap<&'static str, Vec<Script>>,
    /// Answers of checks: those that fail, by container and what.
    failing: Vec<(&'static str, Looks, std::ops::Range<u64>)>,
    deleted_at: Option<(u64, u64)>,
    /// Until then images cannot be pulled.
    pulls_from: u64,
}

fn at(secs: u64) -> Time {
    Time(1_700_000_000_000_000) + Duration::from_secs(secs)
}

fn secs(time: Time) -> u64 {
    time.since(at(0)).as_secs()
}

fn ended(since: Time, until: Time, code: i32) -> State {
    State::Ended(Ended {
        since_micros: Some(since.0),
        until_micros: until.0,
        code,
        signal: None,
        why: Why::Exited,
        message: String::new(),
    })
}

fn not_pulled(now: Time) -> State {
    State::Ended(Ended {
        since_micros: None,
        until_micros: now.0,
        code: 128,
        signal: None,
        why: Why::ImageNotPulled,
        message: "no such host".to_owned(),
    })
}

impl Player {
    fn of(scripts: &[(&'static str, &[Script])]) -> Player {
        let scripts = scripts.iter().map(|(name, runs)| (*name, runs.to_vec())).collect();
        Player { scripts, failing: Vec::new(), deleted_at: None, pulls_from: 0 }
    }

    fn script(&self, name: &str, attempt: u32) -> Script {
        let runs = &self.scripts[name];
        *runs.get(attempt as usize).or(runs.last()).expect("a script has a run")
    }

    /// Plays until the pod is over or the time is; what happened, and how the pod was at the end.
    fn play(&self, pod: &Tree, until: u64) -> (Vec<String>, Tree) {
        let work = Work::of(pod);
        let (mut life, mut now, mut lines) = (Life::new(&work), at(0), Vec::new());
        let mut asked_to_stop = vec![false; work.containers.len()];
        while secs(now) <= until && !life.over() {
            let mut due = self.let_run(&work, &mut life, &asked_to_stop, now);
            let gone_by =
                self.deleted_at.filter(|(when, _)| at(*when) <= now).map(|(when, grace)| at(when + grace));
            let asked = Asked { since: at(0), gone_by, ..Asked::default() };
            let next = life.next(&work, &asked, now);
            due.extend(next.wake);
            due.extend(self.deleted_at.map(|(when, _)| at(when)));
            let idle = next.deeds.is_empty();
            for deed in next.deeds {
                self.do_it(&work, &mut life, deed, now, &mut asked_to_stop, &mut lines);
            }
            if idle {
                let Some(later) = due.into_iter().filter(|time| *time > now).min() else { break };
                now = later;
            }
        }
        let status = report(pod, &work, &life, now);
        let addresses = muster_api::pod_status::Addresses { host: "h".into(), pod: "p".into() };
        (lines, status.patch(pod, &addresses, now))
    }

    /// What runs begin and end now; when the next one ends.
    fn let_run(&self, work: &Work, life: &mut Life, asked: &[bool], now: Time) -> Vec<Time> {
        let mut due = Vec::new();
        for (number, (one, being)) in work.containers.iter().zip(&mut life.beings).enumerate() {
            if being.state == Some(State::Starting) {
                let state = match secs(now) < self.pulls_from {
                    true => not_pulled(now),
                    false => State::Running { since: now },
                };
                being.saw(one, Some(state));
            }
            let (Some(since), Some(attempt)) = (being.running(), being.attempt) else { continue };
            match self.script(&one.name, attempt) {
                Script::Ends(after, code) => {
                    let end = since + Duration::from_secs(after);
                    match now >= end {
                        true => being.state = Some(ended(since, now, code)),
                        false => due.push(end),
                    }
                }
                Script::Obeys if asked[number] => being.state = Some(ended(since, now, 143)),
                Script::Obeys | Script::Ignores => {}
            }
        }
        due
    }

    fn do_it(
        &self,
        work: &Work,
        life: &mut Life,
        deed: Deed,
        now: Time,
        asked: &mut [bool],
        lines: &mut Vec<String>,
    ) {
        let name = |at: usize| work.containers[at].name.to_string();
        let line = match deed {
            Deed::Start(one, attempt) => {
                life.begun(one, attempt);
                asked[one] = false;
                Some(format!("start {} {attempt}", name(one)))
            }
            Deed::Signal(one, signal) => {
                asked[one] = true;
                Some(format!("signal {} {signal}", name(one)))
            }
            Deed::Kill(one) => {
                let since = life.beings[one].running().unwrap_or(now);
                life.beings[one].state = Some(ended(since, now, 137));
                Some(format!("kill {}", name(one)))
            }
            Deed::Check(one, what) => {
                let fails = self.failing.iter().any(|(container, looks, when)| {
                    *container == name(one) && *looks == what && when.contains(&secs(now))
                });
                let found = if fails { Err("no".to_owned()) } else { Ok(()) };
                for deed in life.heard(work, one, what, found, now).deeds {
                    self.do_it(work, life, deed, now, asked, lines);
                }
                matches!(what, Looks::PreStop | Looks::PostStart).then(|| format!("{what:?} {}", name(one)))
            }
            Deed::Note(_, reason, message) => {
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
fn lives() {
    use Script::{Ends, Ignores, Obeys};
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
            Player::of(&[("a", &[Ends(3, 0)])]),
            60,
            "Succeeded",
            &["  0 start a 0"][..],
        ),
        (
            "it ends badly",
            one("Never"),
            Player::of(&[("a", &[Ends(3, 7)])]),
            60,
            "Failed",
            &["  0 start a 0"],
        ),
        (
            "the first restart at once, then after ten, twenty, forty seconds",
            one("OnFailure"),
            Player::of(&[("a", &[Ends(1, 1), Ends(1, 1), Ends(1, 1), Ends(1, 0)])]),
            300,
            "Succeeded",
            &["  0 start a 0", "  1 start a 1", " 12 start a 2", " 33 start a 3"],
        ),
        (
            "a long run forgives",
            one("Always"),
            Player::of(&[("a", &[Ends(1, 1), Ends(1, 1), Ends(700, 1), Ends(9999, 0)])]),
            800,
            "Running",
            &["  0 start a 0", "  1 start a 1", " 12 start a 2", "712 start a 3"],
        ),
        (
            "init containers one by one, a sidecar beside them and after them, which goes last",
            with_init.clone(),
            Player::of(&[
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
            Player::of(&[
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
            Player::of(&[
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
            Player::of(&[("a", &[Ignores])]),
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
fn an_image_is_pulled_again_after_longer_and_longer_pauses() {
    let never = pod(tree!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "there/it:1"}]}));
    let mut player = Player::of(&[("a", &[Script::Ends(1, 0)])]);
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
fn an_image_that_is_gone_before_a_restart_leaves_the_end_of_the_run_before() {
    let pod = pod(tree!({"restartPolicy": "Always", "containers": [{"name": "a", "image": "x"}]}));
    let work = Work::of(&pod);
    let mut life = Life::new(&work);
    life.begun(0, 0);
    life.beings[0].saw(&work.containers[0], Some(ended(at(0), at(1), 3)));
    life.next(&work, &Asked::default(), at(1));
    life.begun(0, 1);
    assert!(life.beings[0].saw(&work.containers[0], Some(not_pulled(at(2)))), "its folder is free again");
    assert_eq!(life.beings[0].attempt, Some(0));
    assert_eq!(life.beings[0].end().map(|end| end.code), Some(3));
    let next = life.next(&work, &Asked::default(), at(2));
    assert!(!next.deeds.iter().any(|deed| matches!(deed, Deed::Start(..))), "not before the pause is over");
}

#[test]
fn a_deadline_that_is_set_or_lowered_later_counts() {
    let pod = pod(tree!({"restartPolicy": "Always", "containers": [{"name": "a"}]}));
    let mut work = Work::of(&pod);
    let mut life = Life::new(&work);
    let asked = Asked { since: at(0), ..Asked::default() };
    life.begun(0, 0);
    life.next(&work, &asked, at(60));
    assert_eq!(life.ending, None);
    work.update(&pod.with(&["spec", "activeDeadlineSeconds"], 90));
    assert_eq!(life.next(&work, &asked, at(60)).wake, Some(at(90)));
    work.update(&pod.with(&["spec", "activeDeadlineSeconds"], 30));
    life.next(&work, &asked, at(60));
    assert_eq!(life.ending.as_ref().map(|ending| ending.why), Some(EndWhy::Deadline));
}

#[test]
fn deletion_has_its_grace() {
    use Script::{Ignores, Obeys};
    let hooked = pod(
        tree!({"restartPolicy": "Always", "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "stopSignal": "SIGUSR1"}}]}),
    );
    let mut player = Player::of(&[("s", &[Obeys]), ("a", &[Obeys])]);
    player.deleted_at = Some((5, 30));
    let (lines, status) = player.play(&hooked, 60);
    let want = ["  0 start s 0", "  0 start a 0", "  5 PreStop a", "  5 signal a 10", "  5 signal s 15"];
    assert_eq!(lines, want);
    assert_eq!(phase_of(&status), "Failed", "it was ended by a signal");
    let mut player = Player::of(&[("s", &[Obeys]), ("a", &[Ignores])]);
    player.deleted_at = Some((5, 4));
    let (lines, _) = player.play(&hooked, 60);
    assert_eq!(
        lines[2..],
        ["  5 PreStop a", "  5 signal a 10", "  9 kill a", "  9 kill s"],
        "all by the same time"
    );
    let mut player = Player::of(&[("s", &[Obeys]), ("a", &[Ignores])]);
    player.deleted_at = Some((0, 30));
    let (lines, status) = player.play(&hooked, 60);
    assert_eq!(lines, [""; 0], "what is deleted before it began never begins");
    let state = status.items_at(&["status", "containerStatuses"])[0].clone();
    assert_eq!(state.str_at(&["state", "terminated", "reason"]), "ContainerStatusUnknown");
}

#[test]
fn probes_decide() {
    use Script::Obeys;
    let probe = |period: i64, failures: i64| tree!({"exec": {"command": ["x"]}, "periodSeconds": period, "failureThreshold": failures});
    let pod = pod(
        tree!({"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 2, "containers": [{"name": "a",
        "startupProbe": probe(2, 5), "livenessProbe": probe(5, 2), "readinessProbe": probe(1, 1)}]}),
    );
    let mut player = Player::of(&[("a", &[Obeys])]);
    player.failing = vec![("a", Looks::Startup, 0..3), ("a", Looks::Liveness, 10..20)];
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
    player.failing = vec![("a", Looks::Readiness, 3..60)];
    let (_, status) = player.play(&pod, 9);
    let told = status.items_at(&["status", "containerStatuses"])[0].clone();
    assert_eq!(told.bool_at(&["ready"]), Some(false));
    let message = "containers with unready status: [a]";
    let conditions = status.items_at(&["status", "conditions"]);
    assert!(conditions.iter().any(|it| it.str_at(&["message"]) == message), "{conditions:?}");
}

#[test]
fn a_failed_post_start_hook_ends_the_run() {
    let pod = pod(tree!({"restartPolicy": "Never", "containers": [{"name": "a",
        "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}]}));
    let mut player = Player::of(&[("a", &[Script::Obeys])]);
    player.failing = vec![("a", Looks::PostStart, 0..60)];
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
fn ephemeral_containers_say_that_they_are_not_run() {
    assert_eq!(super::report::ephemeral(&pod(tree!({}))), None);
    let debugged = pod(tree!({"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}));
    let told = super::report::ephemeral(&debugged).unwrap().items()[0].clone();
    assert_eq!((told.str_at(&["name"]), told.bool_at(&["ready"])), ("debugger", Some(false)));
    assert!(told.str_at(&["state", "waiting", "message"]).contains("kubectl exec"), "{told}");
}
