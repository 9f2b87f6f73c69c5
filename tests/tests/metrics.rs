//! `/metrics`, `/livez` and `/readyz` of `muster up`, as a monitoring system reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::EmbeddedServer;
use muster_tree::tree;

/// How often one looks for what is waited for, and how long apart.
const LOOKS: u32 = 1800;
const PAUSE: Duration = Duration::from_millis(100);

/// What a scrape says.
#[derive(Debug, Default)]
pub struct Scrape {
    /// `name{labels}` and its value.
    pub values: BTreeMap<String, f64>,
    /// Names that have a line of help, and those that have a type.
    helped: Vec<String>,
    typed: Vec<String>,
}

impl Scrape {
    pub fn of(server: &ApiClient) -> Scrape {
        let answer = server.get("/metrics").unwrap();
        assert_eq!(answer.code, 200);
        let text = answer.body.as_str().expect("text").to_owned();
        let mut scrape = Scrape::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["#", "HELP", name, ..] => scrape.helped.push(name.to_owned()),
                ["#", "TYPE", name, kind] => {
                    assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                    scrape.typed.push(name.to_owned());
                }
                ["#", "EOF"] => {}
                [name, value] => {
                    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
                    scrape.values.insert(name.to_owned(), value);
                }
                _ => panic!("neither help, type nor number: {line}"),
            }
        }
        scrape
    }

    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }
}

#[test]
fn controllers_tell_what_they_do() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1"]).unwrap();
    let server = plane.server().unwrap();
    let before = Scrape::of(&server);
    assert_eq!(before.helped, before.typed, "each number is explained and typed");
    for name in [
        "plans",
        "calls",
        "refusals",
        "repeats",
        "events_dropped",
        "queue_length",
        "calls_in_flight",
        "writes",
    ] {
        let name = format!("muster_controller_{name}");
        assert!(before.helped.contains(&name), "{name} is not there");
    }
    assert_eq!(before.value("muster_controller_running"), 1.0);
    assert_eq!(before.value("muster_controller_synced"), 1.0);

    let job = tree!({"metadata": {"name": "a"}, "spec": {"completions": 3, "parallelism": 3,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    assert_eq!(server.send("POST", jobs, &RequestStep::default(), job.to_json_bytes()).unwrap().code, 201);
    let done = |_: &u32| {
        std::thread::sleep(PAUSE);
        server.get(&format!("{jobs}/a")).unwrap().body.int_at(&["status", "succeeded"]) == Some(3)
    };
    assert!((0..LOOKS).any(|n| done(&n)), "the Job ends");
    let after = Scrape::of(&server);
    let grown = |name: &str| after.value(name) - before.value(name);
    assert!(grown("muster_controller_plans_total") > 0.0);
    let made = grown(r#"muster_controller_calls_total{verb="create",resource="pods"}"#);
    let bound = grown(r#"muster_controller_calls_total{verb="bind",resource="pods"}"#);
    assert_eq!((made, bound), (3.0, 3.0), "one call for each pod");
    assert!(grown(r#"muster_controller_writes_total{manager="job-controller"}"#) >= 3.0);
    let placed =
        grown(r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}"#);
    let waits = grown("scheduler_pod_scheduling_sli_duration_seconds_count");
    assert_eq!((placed, waits), (3.0, 3.0), "each pod was placed at the first try and waited once");
}

#[test]
fn the_scheduler_tells_who_waits() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1"]).unwrap();
    let server = plane.server().unwrap();
    for (name, more) in [
        (
            "greedy",
            tree!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9999"}}}]}),
        ),
        ("gated", tree!({"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "g"}]})),
        (
            "early",
            tree!({"containers": [{"name": "c", "image": "i"}],
                "workloadRef": {"name": "w", "podGroupName": "g"}}),
        ),
    ] {
        let pod = tree!({"metadata": {"name": name}, "spec": more});
        let made = server.send(
            "POST",
            "/api/v1/namespaces/default/pods",
            &RequestStep::default(),
            pod.to_json_bytes(),
        );
        assert_eq!(made.unwrap().code, 201);
    }
    let told = |_: &u32| {
        std::thread::sleep(PAUSE);
        let scrape = Scrape::of(&server);
        let waits = |queue: &str| scrape.value(&format!(r#"scheduler_pending_pods{{queue="{queue}"}}"#));
        let places = ["unschedulable", "gated", "incomplete", "active"].map(waits);
        places == [1.0, 1.0, 1.0, 0.0]
    };
    assert!((0..LOOKS).any(|n| told(&n)), "one pod finds no room, one has a gate, one waits for its group");
}

#[test]
fn whoever_watches_over_it_can_ask_for_the_controllers() {
    let server = EmbeddedServer::shared().server().unwrap();
    for path in
        ["/readyz/controllers", "/livez/controllers", "/readyz/store", "/livez", "/healthz", "/readyz"]
    {
        assert_eq!(server.get(path).unwrap().code, 200, "{path}");
    }
}
