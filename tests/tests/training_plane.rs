//! What surrounds TrainJobs on the embedded plane: the runtimes that come along, settings, numbers, processes of this
//! the host that train, and the progress that they report.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_tests::differential::{ApiClient, HttpAnswer, RequestStep};
use muster_tests::embedded_server::{self, EmbeddedServer, RestartableServer};
use muster_tests::muster_process::until;
use muster_tests::progress_reports;
use muster_tests::real;
use muster_tree::{Tree, tree};

use crate::metrics::Scrape;

const TRAINER: &str = "/apis/trainer.kubeflow.org/v1alpha1";
const RUNTIMES: &str = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes";
const JOBS: &str = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs";
const PUBLIC: &str = "/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public";

fn send(server: &ApiClient, method: &str, path: &str, body: &Tree) -> HttpAnswer {
    let kind = if method == "PATCH" { "merge" } else { "json" };
    let step = RequestStep { kind: kind.to_owned(), ..RequestStep::default() };
    server.send(method, path, &step, body.to_json_bytes()).unwrap()
}

fn create(server: &ApiClient, path: &str, body: &Tree) -> Tree {
    let answer = send(server, "POST", path, body);
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer.body
}

fn delete(server: &ApiClient, path: &str) {
    let answer = server.send("DELETE", path, &RequestStep::default(), Vec::new()).unwrap();
    assert_eq!(answer.code, 200, "{}", answer.body);
}

/// A TrainJob of this runtime.
fn job(name: &str, runtime: &str, spec: &Tree) -> Tree {
    tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name},
        "spec": tree!({"runtimeRef": {"name": runtime}}).merge(spec)})
}

/// A runtime whose pods report this progress.
fn runtime(name: &str, policy: &Tree, annotations: &Tree, containers: &Tree) -> Tree {
    let pods = tree!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
    let job = tree!({"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": 0, "template": pods}});
    tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": name},
        "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}}})
}

/// The same for simulated pods that run for so long.
fn simulated(name: &str, seconds: &str) -> Tree {
    let annotations = tree!({"muster.dev/sim-run-seconds": seconds});
    runtime(name, &tree!({"numNodes": 1}), &annotations, &tree!([{"name": "node", "image": "any"}]))
}

fn ended(job: &Tree) -> Option<(String, String)> {
    let end = |it: &&Tree| {
        ["Complete", "Failed"].contains(&it.str_at(&["type"])) && it.str_at(&["status"]) == "True"
    };
    let found = job.items_at(&["status", "conditions"]).iter().find(end)?;
    Some((found.str_at(&["type"]).to_owned(), found.str_at(&["reason"]).to_owned()))
}

/// Waits for the end of a TrainJob; its condition and its reason.
fn end_of(server: &ApiClient, name: &str) -> (String, String) {
    until(server, &format!("{JOBS}/{name}"), "it ends", ended)
}

/// The logs of the pods of a TrainJob, by their names.
fn logs(server: &ApiClient, name: &str) -> Vec<String> {
    let selector = format!("jobset.sigs.k8s.io/jobset-name={name}");
    let pods = server.get(&format!("/api/v1/namespaces/default/pods?labelSelector={selector}")).unwrap().body;
    let mut names: Vec<&str> =
        pods.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"])).collect();
    names.sort_unstable();
    let log = |pod: &&str| {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/log?container=node");
        let told = server.get(&path).unwrap().body;
        told.as_str().map_or_else(|| told.to_json(), str::to_owned)
    };
    names.iter().map(log).collect()
}

fn names(list: &Tree) -> Vec<&str> {
    list.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"])).collect()
}

#[test]
fn runtimes_are_there_from_the_first_start() {
    let server = EmbeddedServer::shared().server().unwrap();
    let all = server.get(RUNTIMES).unwrap().body;
    let want = [
        "deepspeed-distributed",
        "jax-distributed",
        "local-process",
        "mlx-distributed",
        "torch-distributed",
        "torchtune-llama3.2-1b",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
        "xgboost-distributed",
    ];
    let found: Vec<&str> = names(&all).into_iter().filter(|it| want.contains(it)).collect();
    assert_eq!(found, want);
    // What the Python client looks at before it lists one.
    for it in all.items_at(&["items"]).iter().filter(|it| want.contains(&it.str_at(&["metadata", "name"]))) {
        let name = it.str_at(&["metadata", "name"]);
        let word = (it.str_at(&["apiVersion"]), it.str_at(&["kind"]));
        assert_eq!(word, ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"), "{name}");
        assert_ne!(it.str_at(&["metadata", "labels", "trainer.kubeflow.org/framework"]), "", "{name}");
        assert_eq!(it.int_at(&["spec", "mlPolicy", "numNodes"]), Some(1), "{name}");
        let jobs = it.items_at(&["spec", "template", "spec", "replicatedJobs"]);
        let trains = |job: &&Tree| {
            let step = job.str_at(&[
                "template",
                "metadata",
                "labels",
                "trainer.kubeflow.org/trainjob-ancestor-step",
            ]);
            step == "trainer"
        };
        let job = jobs.iter().find(trains).unwrap_or_else(|| panic!("{name}: nothing trains"));
        let container = &job.items_at(&["template", "spec", "template", "spec", "containers"])[0];
        assert_eq!(container.str_at(&["name"]), "node", "{name}");
        assert_ne!(container.str_at(&["image"]), "", "{name}");
    }
    let local = server.get(&format!("{RUNTIMES}/local-process")).unwrap().body;
    assert_eq!(local.at(&["spec", "mlPolicy", "torch"]), None, "nothing but Python is needed");
    assert_eq!(server.get(PUBLIC).unwrap().body.str_at(&["data", "kubeflow_trainer_version"]), "2.3.0");
}

#[test]
fn without_the_controller_nothing_of_it_is_there() {
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1", "--controllers", "*,-trainer"]).unwrap();
    let server = plane.server().unwrap();
    for path in [TRAINER, RUNTIMES, PUBLIC, "/api/v1/namespaces/kubeflow-system"] {
        assert_eq!(server.get(path).unwrap().code, 404, "{path}");
    }
    assert!(!Scrape::of(&server).values.keys().any(|name| name.starts_with("trainjob_")));
}

/// The definition of JobSets comes with another controller, after the start.
#[test]
fn alone_the_controller_follows_jobsets_that_another_runs() {
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1", "--controllers", "trainer"]).unwrap();
    let server = plane.server().unwrap();
    let definition =
        real::crd_manifest(&embedded_server::binary().unwrap(), "jobsets.jobset.x-k8s.io").unwrap();
    create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let set = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/a";
    until(&server, "/apis/jobset.x-k8s.io/v1alpha2", "they are served", |it| {
        (it.str_at(&["kind"]) == "APIResourceList").then_some(())
    });
    create(&server, JOBS, &job("a", "local-process", &tree!({})));
    until(&server, set, "its JobSet", |it| (it.str_at(&["kind"]) == "JobSet").then_some(()));
    let done = tree!({"type": "Completed", "status": "True", "reason": "AllJobsCompleted",
        "message": "jobset completed successfully", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let answer = send(&server, "PATCH", &format!("{set}/status"), &tree!({"status": {"conditions": [done]}}));
    assert_eq!(answer.code, 200, "{}", answer.body);
    let end = until(&server, &format!("{JOBS}/a"), "it ends", ended);
    assert_eq!(end, ("Complete".to_owned(), "AllJobsCompleted".to_owned()));
}

#[test]
fn a_restart_keeps_what_a_user_changed_and_brings_back_what_is_missing() {
    let mut mortal = RestartableServer::with_args(&["--sim-nodes", "1"]).unwrap();
    let server = mortal.server().unwrap();
    let at = |name: &str| format!("{RUNTIMES}/{name}");
    let image = |server: &ApiClient, name: &str| {
        let found = server.get(&at(name)).unwrap().body;
        let job = &found.items_at(&["spec", "template", "spec", "replicatedJobs"])[0];
        let container = &job.items_at(&["template", "spec", "template", "spec", "containers"])[0];
        container.str_at(&["image"]).to_owned()
    };
    let jobs = server.get(&at("torch-distributed")).unwrap().body;
    let jobs = jobs.at(&["spec", "template", "spec", "replicatedJobs"]).unwrap().to_json();
    let mine = jobs.replace("pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime", "mine");
    let change =
        tree!({"spec": {"template": {"spec": {"replicatedJobs": (Tree::parse(mine.as_bytes()).unwrap())}}}});
    assert_eq!(send(&server, "PATCH", &at("torch-distributed"), &change).code, 200);
    let gone = tree!({"metadata": {"labels": {"trainer.kubeflow.org/framework": null}}});
    assert_eq!(send(&server, "PATCH", &at("mlx-distributed"), &gone).code, 200);
    delete(&server, &at("jax-distributed"));
    let shipped = server.get(&at("xgboost-distributed")).unwrap().body;
    mortal.kill();
    mortal.restart().unwrap();
    let server = mortal.server().unwrap();
    assert_eq!(image(&server, "torch-distributed"), "mine", "a change stays");
    let labels = server.get(&at("mlx-distributed")).unwrap().body;
    assert_eq!(
        labels.str_at(&["metadata", "labels", "trainer.kubeflow.org/framework"]),
        "",
        "so does a removal"
    );
    assert_eq!(image(&server, "jax-distributed"), "nvcr.io/nvidia/jax:25.10-py3", "what was deleted is back");
    assert_eq!(
        server.get(&at("xgboost-distributed")).unwrap().body,
        shipped,
        "the rest was not even written"
    );
}

/// Shows: 2899-31, 2899-32, 2899-33, 2899-34, 2899-35, 2899-36, 2899-37.
#[test]
fn numbers_of_train_jobs_are_scraped() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "2"]).unwrap();
    let server = plane.server().unwrap();
    let before = Scrape::of(&server);
    assert_eq!(before.value("trainjob_ttl_pending_deletions"), 0.0);
    let queue = r#"{controller="trainjob_controller",name="trainjob_controller"}"#;
    for name in [
        format!("workqueue_depth{queue}"),
        format!("workqueue_retries_total{queue}"),
        format!("workqueue_queue_duration_seconds_count{queue}"),
        r#"controller_runtime_reconcile_errors_total{controller="trainjob_controller"}"#.to_owned(),
        r#"controller_runtime_reconcile_time_seconds_count{controller="trainjob_controller"}"#.to_owned(),
        "trainjob_reconcile_duration_seconds_count".to_owned(),
        "trainjob_ttl_deletion_latency_seconds_count".to_owned(),
    ] {
        assert!(before.values.contains_key(&name), "{name} is not there before the first TrainJob");
    }
    create(&server, RUNTIMES, &simulated("quick", "0"));
    create(&server, RUNTIMES, &simulated("endless", "36000"));
    for (name, runtime, spec) in [
        ("late", "endless", tree!({"activeDeadlineSeconds": 1})),
        ("gone", "quick", tree!({"ttlSecondsAfterFinished": 0})),
        ("waits", "quick", tree!({"ttlSecondsAfterFinished": 36000})),
        ("runs", "endless", tree!({"activeDeadlineSeconds": 36000})),
    ] {
        create(&server, JOBS, &job(name, runtime, &spec));
    }
    assert_eq!(end_of(&server, "late"), ("Failed".to_owned(), "DeadlineExceeded".to_owned()));
    until(&server, &format!("{JOBS}/gone"), "it is gone", |it| {
        (it.str_at(&["kind"]) == "Status").then_some(())
    });
    assert_eq!(end_of(&server, "waits").0, "Complete");
    let remaining = r#"trainjob_active_deadline_remaining_seconds{name="runs",namespace="default"}"#;
    let status = |runtime: &str, state: &str| {
        format!(r#"trainjob_status{{namespace="default",runtime="{runtime}",state="{state}"}}"#)
    };
    // Counted when it is seen, which may be a moment later.
    let told = |scrape: &Scrape| {
        scrape.value(r#"trainjob_ttl_deletions_total{namespace="default"}"#) == 1.0
            && scrape.value(r#"trainjob_deadline_exceeded_total{namespace="default"}"#) == 1.0
            && scrape.value("trainjob_ttl_deletion_latency_seconds_count") == 1.0
            && scrape.value("trainjob_ttl_pending_deletions") == 1.0
            && scrape.value(&status("quick", "complete")) == 1.0
            && scrape.value(&status("endless", "failed")) == 1.0
            && scrape.value(&status("endless", "running")) == 1.0
            && scrape.value("trainjob_time_to_running_seconds_count") >= 1.0
    };
    let scrape = look(&server, "all are counted", told);
    assert!(scrape.value("trainjob_ttl_deletion_latency_seconds_sum") >= 0.0);
    let buckets =
        |le: &str| scrape.value(&format!(r#"trainjob_ttl_deletion_latency_seconds_bucket{{le="{le}"}}"#));
    assert_eq!((buckets("300.0"), buckets("+Inf")), (1.0, 1.0));
    assert!((0.0..36_000.0).contains(&scrape.value(remaining)), "it counts down from its deadline");
    assert!(scrape.value("trainjob_reconcile_duration_seconds_count") > 0.0);
    let again =
        look(&server, "it counts down at every scrape", |it| it.value(remaining) < scrape.value(remaining));
    assert!(again.values.contains_key(remaining));
    assert_eq!(
        send(&server, "PATCH", &format!("{JOBS}/runs"), &tree!({"spec": {"suspend": true}})).code,
        200
    );
    look(&server, "a suspended job has no clock", |it| !it.values.contains_key(remaining));
    look(&server, "and is told as such", |it| it.value(&status("endless", "suspended")) == 1.0);

    let quota =
        tree!({"metadata": {"name": "none"}, "spec": {"hard": {"count/jobsets.jobset.x-k8s.io": "0"}}});
    create(&server, "/api/v1/namespaces", &tree!({"metadata": {"name": "full"}}));
    create(&server, "/api/v1/namespaces/full/resourcequotas", &quota);
    create(&server, &JOBS.replace("default", "full"), &job("refused", "quick", &tree!({})));
    let errors = r#"controller_runtime_reconcile_errors_total{controller="trainjob_controller"}"#;
    look(&server, "what is refused is an error", |it| it.value(errors) > scrape.value(errors));
    look(&server, "which is tried again", |it| it.value(&format!("workqueue_retries_total{queue}")) > 0.0);
}

/// Scrapes until it is as it should be.
fn look(server: &ApiClient, what: &str, fits: impl Fn(&Scrape) -> bool) -> Scrape {
    for _ in 0..600 {
        let scrape = Scrape::of(server);
        if fits(&scrape) {
            return scrape;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let all = Scrape::of(server);
    let told: Vec<String> =
        all.values.iter().filter(|(it, _)| it.contains("trainjob")).map(|it| format!("{it:?}")).collect();
    panic!("never seen: {what}\n{}", told.join("\n"));
}

#[test]
fn a_wrong_setting_ends_the_start_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let trainer = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n";
    let ours = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";
    for (text, words) in [
        (
            format!("{ours}trainjob:\n  deadlineClock: now\n"),
            "line 4: trainjob.deadlineClock: Invalid value: \"now\": must be one of auto, creation, active",
        ),
        (format!("{ours}trainJob: {{}}\n"), "line 3: trainJob: unknown key; did you mean `trainjob`?"),
        (
            format!("{trainer}featureGates:\n  TrainJobStatuses: true\n"),
            "line 4: featureGates.TrainJobStatuses: unknown key; did you mean `TrainJobStatus`?",
        ),
        (format!("{trainer}statusServer:\n  port: 0\n"), "line 4: statusServer.port: Invalid value: 0"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let mut up = Command::new(embedded_server::binary().unwrap());
        up.args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
        let output = up.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}: {told}");
        assert!(told.contains(words), "{words} is not in {told}");
    }
}

/// The clock that is configured decides from when on a resumed job's deadline counts.
#[test]
fn the_clock_of_deadlines_is_a_setting() {
    const DEADLINE: f64 = 36_000.0;
    let folder = tempfile::tempdir().unwrap();
    for (clock, from_start) in [("creation", false), ("active", true)] {
        let file = folder.path().join("config.yaml");
        let ours = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";
        std::fs::write(&file, format!("{ours}trainjob: {{deadlineClock: {clock}}}\n")).unwrap();
        let config = file.display().to_string();
        let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1", "--config", &config]).unwrap();
        let server = plane.server().unwrap();
        create(&server, RUNTIMES, &simulated("endless", "72000"));
        create(
            &server,
            JOBS,
            &job("a", "endless", &tree!({"suspend": true, "activeDeadlineSeconds": 36000})),
        );
        let path = format!("{JOBS}/a");
        let told = |status: &'static str| {
            until(&server, &path, "it is suspended, or not", |it| {
                let found = it.items_at(&["status", "conditions"]).first()?;
                (found.str_at(&["status"]) == status).then(|| seconds(found.str_at(&["lastTransitionTime"])))
            })
        };
        told("True");
        // Both timestamps have whole seconds; the pause is long enough to tell them apart.
        std::thread::sleep(Duration::from_secs(5));
        assert_eq!(send(&server, "PATCH", &path, &tree!({"spec": {"suspend": false}})).code, 200);
        let started = told("False");
        let created = seconds(server.get(&path).unwrap().body.str_at(&["metadata", "creationTimestamp"]));
        let remaining = r#"trainjob_active_deadline_remaining_seconds{name="a",namespace="default"}"#;
        let scrape = look(&server, "it has a clock", |it| it.values.contains_key(remaining));
        #[expect(clippy::disallowed_methods, reason = "it is compared with what a scrape says of now")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let due = now + scrape.value(remaining);
        let off = |since: f64| (due - since - DEADLINE).abs();
        assert_eq!(off(started) < off(created), from_start, "{clock}: due {due}, {created}, {started}");
    }
}

fn seconds(text: &str) -> f64 {
    let micros = muster_api::time::Time::parse(text).unwrap_or_else(|| panic!("no time: {text}")).0;
    Duration::from_micros(u64::try_from(micros).unwrap()).as_secs_f64()
}

/// What the Python client makes of a function: a text for bash that writes a file of a fixed name beside itself.
fn function(code: &str) -> Tree {
    let script = format!(
        "\nread -r -d '' SCRIPT << EOM\n\n{code}\nEOM\nprintf \"%s\" \"$SCRIPT\" > \"train.py\"\npython3 \"train.py\""
    );
    tree!(["bash", "-c", script])
}

#[test]
fn a_function_runs_on_every_node_in_a_folder_of_its_own() {
    for isolation in ["auto", "none"] {
        let plane = EmbeddedServer::start(&["--ephemeral", "--isolation", isolation]).unwrap();
        let server = plane.server().unwrap();
        // Were the folder shared, both would find what the other left.
        let code = "import os, time\n\
            mine = os.environ['JOB_COMPLETION_INDEX']\n\
            open('who', 'a').write(mine)\n\
            time.sleep(1)\n\
            print('node', mine, 'wrote', open('who').read())";
        let trainer = tree!({"trainer": {"numNodes": 2, "command": (function(code))}});
        create(&server, JOBS, &job("fn", "local-process", &trainer));
        assert_eq!(end_of(&server, "fn").0, "Complete", "isolation {isolation}: {:?}", logs(&server, "fn"));
        assert_eq!(logs(&server, "fn"), ["node 0 wrote 0\n", "node 1 wrote 1\n"], "isolation {isolation}");
        create(&server, JOBS, &job("greets", "local-process", &tree!({})));
        assert_eq!(end_of(&server, "greets").0, "Complete");
        assert!(logs(&server, "greets")[0].contains("give the TrainJob a command"), "it says what to do");
    }
}

/// Waits at the meeting point of torch as its processes do: the first listens on every address.
const MEETS: &str = "import os, socket, time\n\
    address, port = os.environ['PET_MASTER_ADDR'], int(os.environ['PET_MASTER_PORT'])\n\
    rank, nodes = int(os.environ['PET_NODE_RANK']), int(os.environ['PET_NNODES'])\n\
    if rank == 0:\n\
    \x20   door = socket.create_server(('', port))\n\
    \x20   for _ in range(nodes - 1):\n\
    \x20       door.accept()[0].sendall(os.environ['JOB'].encode())\n\
    \x20   print('met', nodes - 1)\n\
    else:\n\
    \x20   for _ in range(600):\n\
    \x20       try:\n\
    \x20           talk = socket.create_connection((address, port))\n\
    \x20           print('met', talk.recv(99).decode())\n\
    \x20           break\n\
    \x20       except OSError:\n\
    \x20           time.sleep(0.1)";

#[test]
fn nodes_of_torch_meet_by_the_standard_variables() {
    let _alone = muster_tests::trainjob_fixture::lock_rendezvous_port();
    for (isolation, together) in [("auto", 1), ("none", 2)] {
        let plane = EmbeddedServer::start(&["--ephemeral", "--isolation", isolation]).unwrap();
        let server = plane.server().unwrap();
        let names: Vec<String> = (0..together).map(|n| format!("meet-{n}")).collect();
        for name in &names {
            let env = tree!([{"name": "JOB", "value": (name.as_str())}]);
            let trainer =
                tree!({"trainer": {"numNodes": 2, "command": ["python3", "-c", MEETS], "env": env}});
            create(&server, JOBS, &job(name, "torch-distributed", &trainer));
        }
        for name in &names {
            assert_eq!(
                end_of(&server, name).0,
                "Complete",
                "isolation {isolation}: {:?}",
                logs(&server, name)
            );
            assert_eq!(
                logs(&server, name),
                ["met 1\n".to_owned(), format!("met {name}\n")],
                "isolation {isolation}"
            );
            let path = format!("/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/{name}");
            let stored = server.get(&path).unwrap().body.to_json();
            assert!(
                stored.contains(&format!(r#""value":"{name}-node-0-0.{name}""#)),
                "objects keep the name"
            );
            assert!(stored.contains(r#""value":"29500""#), "and the port");
        }
    }
}

#[test]
fn mpi_over_ssh_is_refused_where_its_programs_are_not() {
    let has = |name: &str| {
        Command::new("sh")
            .args(["-c", &format!("command -v {name} || test -x /usr/sbin/{name}")])
            .output()
            .unwrap()
            .status
            .success()
    };
    if has("sshd") && has("mpirun") {
        eprintln!("skipped: mpi_over_ssh_is_refused_where_its_programs_are_not: this machine has them");
        return;
    }
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    let trainer = tree!({"trainer": {"numNodes": 2, "command": ["mpirun", "train"]}});
    // As the shipped ones, without their user: an ordinary one may not become another.
    let shipped = server.get(&format!("{RUNTIMES}/deepspeed-distributed")).unwrap().body;
    let own = shipped
        .to_json()
        .replace(r#""securityContext":{"runAsUser":1000},"#, "")
        .replace(r#""securityContext":{"fsGroup":1000}"#, r#""hostname":"""#);
    let own = Tree::parse(own.as_bytes()).unwrap();
    let own = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "ssh"}, "spec": (own.at(&["spec"]).unwrap().clone())});
    create(&server, RUNTIMES, &own);
    create(&server, JOBS, &job("mpi", "ssh", &trainer));
    let told = until(&server, "/api/v1/namespaces/default/events", "it is refused", |all| {
        let words = |it: &&Tree| it.str_at(&["message"]).contains("MPI over SSH");
        all.items_at(&["items"]).iter().find(words).cloned()
    });
    assert_eq!((told.str_at(&["type"]), told.str_at(&["reason"])), ("Warning", "Failed"));
    assert!(told.str_at(&["message"]).contains("install OpenSSH and Open MPI"), "{told}");
}

fn reporting(isolation: &str) -> EmbeddedServer {
    let gates = ["--feature-gates", "TrainJobStatus=true"];
    EmbeddedServer::start(&[["--ephemeral", "--isolation", isolation].as_slice(), &gates].concat()).unwrap()
}

/// Reports as the libraries do that are given the three variables.
const REPORTS: &str = "import json, os, ssl, urllib.request\n\
    trust = ssl.create_default_context(cafile=os.environ['KUBEFLOW_TRAINER_SERVER_CA_CERT'])\n\
    token = open(os.environ['KUBEFLOW_TRAINER_SERVER_TOKEN']).read()\n\
    now = '2026-01-01T00:00:00Z'\n\
    for told in [dict(progressPercentage=10, estimatedRemainingSeconds=90), dict(progressPercentage=42)]:\n\
    \x20   body = json.dumps(dict(trainerStatus=dict(told, lastUpdatedTime=now))).encode()\n\
    \x20   asked = urllib.request.Request(os.environ['KUBEFLOW_TRAINER_SERVER_URL'], body, method='POST')\n\
    \x20   asked.add_header('Authorization', 'Bearer ' + token)\n\
    \x20   with urllib.request.urlopen(asked, context=trust) as answer:\n\
    \x20       print(answer.status, json.load(answer)['trainerStatus']['progressPercentage'])";

#[test]
fn a_process_tells_how_far_it_is() {
    for isolation in ["auto", "none"] {
        let plane = reporting(isolation);
        let server = plane.server().unwrap();
        let trainer = tree!({"trainer": {"command": ["python3", "-c", REPORTS]}});
        create(&server, JOBS, &job("tells", "local-process", &trainer));
        assert_eq!(
            end_of(&server, "tells").0,
            "Complete",
            "isolation {isolation}: {:?}",
            logs(&server, "tells")
        );
        assert_eq!(logs(&server, "tells"), ["200 10\n200 42\n"], "isolation {isolation}");
        let told = server.get(&format!("{JOBS}/tells")).unwrap().body;
        let want = r#"{"lastUpdatedTime":"2026-01-01T00:00:00Z","progressPercentage":42}"#;
        let status = told.at(&["status", "trainerStatus"]).unwrap();
        assert_eq!(status.to_json(), want, "what a later report leaves out is gone");
        let config = server.get("/api/v1/namespaces/default/configmaps/tells-tls-config").unwrap().body;
        assert!(config.str_at(&["data", "ca.crt"]).starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(config.items_at(&["metadata", "ownerReferences"])[0].str_at(&["name"]), "tells");
    }
}

#[test]
fn what_is_answered_to_a_report() {
    let plane = reporting("auto");
    let server = plane.server().unwrap();
    let post = |token: &str, path: &str, body: &str| {
        let somebody = ApiClient::new(server.base(), token);
        let answer = somebody.send("POST", path, &RequestStep::default(), body.as_bytes().to_vec()).unwrap();
        (answer.code, answer.body)
    };
    progress_reports::check_responses(&server, "local-process", &post);
    let admin =
        server.send("POST", &progress_reports::path("a"), &RequestStep::default(), b"{}".to_vec()).unwrap();
    assert_eq!(admin.code, 403, "nobody reports without a token");
}

#[test]
fn without_the_gate_nobody_reports() {
    let server = EmbeddedServer::shared().server().unwrap();
    create(&server, JOBS, &job("quiet", "local-process", &tree!({"suspend": true})));
    let answer = server
        .send("POST", &format!("{JOBS}/quiet/status"), &RequestStep::default(), b"{}".to_vec())
        .unwrap();
    assert_eq!(answer.code, 405, "{}", answer.body);
    let set = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/quiet";
    let set = until(&server, set, "its JobSet is made", |it| {
        (it.str_at(&["kind"]) == "JobSet").then(|| it.to_json())
    });
    assert!(!set.contains("KUBEFLOW_TRAINER_SERVER_URL"), "{set}");
    delete(&server, &format!("{JOBS}/quiet"));
}
