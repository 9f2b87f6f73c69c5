//! What `muster operator` shows of itself: probes, numbers, the debug dump, its log; and how it refuses to show more.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::{self, EmbeddedServer};
use muster_tests::muster_process::{MusterProcess, command, until};
use muster_tests::real;
use muster_tree::{Tree, tree};

/// How often one looks for what is waited for, and how long apart.
const LOOKS: u32 = 1800;
const PAUSE: Duration = Duration::from_millis(100);

const NAMESPACE: &str = "/api/v1/namespaces/default";

/// An operator that logs to a file, and the address of its admin server.
struct Shown {
    operator: MusterProcess,
    log: std::path::PathBuf,
    open: String,
    debug: String,
}

/// The flags of an operator that shows itself, and a file that says the same.
const FLAGS: [&str; 10] = [
    "--admission",
    "",
    "--log-level",
    "info",
    "--log-format",
    "json",
    "--health-listen",
    "127.0.0.1:0",
    "--debug-listen",
    "127.0.0.1:0",
];
const FILE: &str = "apiVersion: muster.dev/v1alpha1
kind: Configuration
admission: []
logLevel: info
logFormat: json
health: {listen: '127.0.0.1:0'}
debug: {listen: '127.0.0.1:0'}
---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [pod]}
multiKueue: {origin: here}
";

fn start(plane: &EmbeddedServer, folder: &Path, name: &str, flags: &[&str]) -> Shown {
    let log = folder.join(name);
    let words = [&["operator"], flags].concat();
    let operator =
        MusterProcess::start_with_stderr(&words, plane.kubeconfig(), File::create(&log).unwrap().into());
    let open = address(&log, "--health-listen");
    let debug = address(&log, "--debug-listen");
    Shown { operator, log, open, debug }
}

/// The lines of a log, each of which is JSON.
fn lines(log: &Path) -> Vec<Tree> {
    let text = std::fs::read_to_string(log).unwrap();
    // The last line may still be on its way.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| Tree::parse(line.as_bytes()).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn address(log: &Path, flag: &str) -> String {
    for _ in 0..LOOKS {
        let told = lines(log).into_iter().find(|line| line.str_at(&["fields", "flag"]) == flag);
        if let Some(line) = told {
            return line.str_at(&["fields", "address"]).to_owned();
        }
        std::thread::sleep(PAUSE);
    }
    panic!("it never says where it listens for {flag}: {:?}", std::fs::read_to_string(log));
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn dump(shown: &Shown) -> Tree {
    let (code, body) = get(&shown.debug, "/debug");
    assert_eq!(code, 200, "{body}");
    Tree::parse(body.as_bytes()).unwrap()
}

fn create(server: &ApiClient, path: &str, object: &Tree) {
    let made = server.send("POST", path, &RequestStep::default(), object.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body.to_json());
}

/// A plane that knows JobSets and leaves them to others.
fn plane() -> EmbeddedServer {
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "0", "--controllers", "gc,namespace"]).unwrap();
    let definition = real::crd_manifest(&embedded_server::binary().unwrap(), real::JOBSET_CRD).unwrap();
    let server = plane.server().unwrap();
    create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io";
    until(&server, path, "JobSets are served", |definition| {
        let mut conditions = definition.items_at(&["status", "conditions"]).iter();
        conditions.any(|it| it.str_at(&["type"]) == "Established").then_some(())
    });
    plane
}

/// A JobSet whose Job is rejected at creation.
fn hopeless(server: &ApiClient) {
    let quota = tree!({"metadata": {"name": "none"}, "spec": {"hard": {"count/jobs.batch": "0"}}});
    create(server, &format!("{NAMESPACE}/resourcequotas"), &quota);
    let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"spec": {"template": {"spec": pod}}});
    let set = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "hopeless"},
        "spec": {"replicatedJobs": [{"name": "a", "replicas": 1, "template": job}]}});
    create(server, "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", &set);
}

/// The numbers; each line is one, or explains one.
fn numbers(address: &str) -> String {
    let (code, text) = get(address, "/metrics");
    assert_eq!(code, 200);
    let (mut helped, mut typed, mut told) = (BTreeSet::new(), BTreeSet::new(), 0);
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "HELP", name, _, ..] => _ = helped.insert(name.to_owned()),
            ["#", "TYPE", name, "counter" | "gauge" | "histogram"] => _ = typed.insert(name.to_owned()),
            ["#", "EOF"] => {}
            [name, value] => {
                assert!(value.parse::<f64>().is_ok(), "no number: {line}");
                let name = name.split('{').next().unwrap();
                let known = |name: &str| helped.contains(name) && typed.contains(name);
                let bare =
                    ["_total", "_bucket", "_sum", "_count"].iter().find_map(|it| name.strip_suffix(it));
                assert!(known(name) || bare.is_some_and(known), "not explained: {line}");
                told += 1;
            }
            _ => panic!("neither help, type nor number: {line}"),
        }
    }
    assert!(told > 5, "{text}");
    text
}

#[test]
fn an_operator_shows_how_it_is() {
    let plane = plane();
    let server = plane.server().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut first = start(&plane, folder.path(), "first", &FLAGS);
    first.operator.wait_for_line("muster is the leader at https://");
    assert_eq!(get(&first.open, "/healthz"), (200, "ok".to_owned()));
    assert_eq!(get(&first.open, "/readyz"), (200, "ok".to_owned()));
    assert_eq!(get(&first.open, "/debug").0, 404, "the dump is on loopback only");

    hopeless(&server);
    let why = (0..LOOKS).find_map(|_| {
        std::thread::sleep(PAUSE);
        let dump = dump(&first);
        let sets = dump.items_at(&["controllers"]).iter().find(|it| it.str_at(&["name"]) == "jobset");
        let failing = sets.expect("there is a controller of JobSets").items_at(&["failing", "first"]);
        let key = failing.iter().find(|key| key.str_at(&["name"]) == "hopeless")?;
        Some(key.str_at(&["why"]).to_owned())
    });
    assert!(why.as_deref().is_some_and(|why| why.contains("exceeded quota: none")), "{why:?}");

    let told = dump(&first);
    assert_eq!(told.str_at(&["role"]), "leads");
    assert_eq!(told.str_at(&["lease", "holderIdentity"]), told.str_at(&["identity"]));
    let kinds: Vec<&Tree> = told.items_at(&["kinds"]).iter().collect();
    let sets = kinds.iter().find(|kind| kind.str_at(&["kind"]) == "jobsets.jobset.x-k8s.io/v1alpha2");
    let sets = sets.unwrap_or_else(|| panic!("{}", told.to_json()));
    assert_eq!((sets.int_at(&["objects"]), sets.bool_at(&["synced"])), (Some(1), Some(true)));
    assert!(kinds.iter().any(|kind| kind.str_at(&["kind"]) == "pods/v1"));

    // A key that is tried again stands in the queue for a moment.
    let rests = "workqueue_depth{controller=\"jobset\",name=\"jobset\"} 0";
    let text = (0..LOOKS).map(|_| numbers(&first.open)).find(|text| {
        std::thread::sleep(PAUSE);
        text.contains(rests)
    });
    let text = text.expect("the queue is empty between two tries");
    for want in [
        "muster_operator_leads 1",
        "controller_runtime_reconcile_total{controller=\"jobset\",result=\"error\"}",
        "controller_runtime_reconcile_total{controller=\"pod\",result=\"success\"}",
        "process_resident_memory_bytes ",
        "muster_controller_synced 1",
    ] {
        assert!(text.contains(want), "{want} is not in\n{text}");
    }

    let file = folder.path().join("config.yaml");
    std::fs::write(&file, FILE).unwrap();
    let second = start(&plane, folder.path(), "second", &["--config", file.to_str().unwrap()]);
    let told = lines(&second.log).iter().any(|line| {
        let words = "configuration: kueue: multiKueue: not supported, Workloads are queued for one cluster";
        line.str_at(&["fields", "message"]) == words
    });
    assert!(told, "what does nothing is told: {:?}", std::fs::read_to_string(&second.log));
    assert_eq!(get(&second.open, "/healthz").0, 200, "who stands by lives");
    assert_eq!(get(&second.open, "/readyz").0, 200, "and is ready");
    assert!(numbers(&second.open).contains("muster_operator_leads 0"));
    assert_eq!(dump(&second).str_at(&["role"]), "stands by");
    assert_eq!(first.operator.terminate(), 0);

    for line in lines(&first.log) {
        for key in ["timestamp", "level", "target"] {
            assert!(!line.str_at(&[key]).is_empty(), "{}", line.to_json());
        }
        assert!(!line.entries_at(&["fields"]).is_empty(), "{}", line.to_json());
    }
}

#[test]
fn a_wrong_file_is_refused_with_all_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let ours = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";
    std::fs::write(&file, format!("{ours}webhok: {{}}\nhealth: {{listen: here}}\n")).unwrap();
    for command_word in ["operator", "up"] {
        let words = [command_word, "--config", file.to_str().unwrap()];
        let output = command(&words, &folder.path().join("kubeconfig")).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("line 3: webhok: unknown key; did you mean `webhook`?"), "{error}");
        assert!(
            error.contains("line 4: health.listen: Invalid value: \"here\": must be an address"),
            "{error}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_dump_is_refused_where_others_could_see_it() {
    // Said before any server is asked for.
    let words = ["operator", "--debug-listen", "0.0.0.0:0"];
    let output = command(&words, Path::new("/absent")).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the debug dump is not served at 0.0.0.0:0"), "{error}");
    assert!(output.stdout.is_empty());
}
