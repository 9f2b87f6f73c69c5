//! The binary as it runs in its image: its configuration and its ServiceAccount token alone, as an unprivileged user, on a root that
//! cannot be written.
//!
//! There need not be a container engine: a folder is the root. Here the binary of the tests is used, with the libraries
//! it is linked to; the one of the image is static (`cargo xtask image`) and has none.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_tests::clients::{note, skip};
use muster_tests::differential::RequestStep;
use muster_tests::muster_process::{command, until};
use muster_tests::real::{self, GangSupport, RealCluster};
use muster_tests::{embedded_server, ports};
use muster_tree::{Tree, tree};

const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";
const SPACE: &str = "/api/v1/namespaces/muster-system";
const OPERATOR: &str = "/apis/apps/v1/namespaces/muster-system/deployments/muster-operator";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-operator";
/// Makes a directory the read-only root and continues as an unprivileged user.
const ENTER: &str = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot --userspec=65532:65532 "$0" /muster "$@""#;
/// How often it is asked whether it is ready, and how long apart.
const TRIES: u32 = 1800;
const PAUSE: Duration = Duration::from_millis(100);

/// A process that does not outlive the test.
struct Inside(Child);

impl Drop for Inside {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Why no folder can be a root here, if so.
fn impossible() -> Option<String> {
    let mut unshare = Command::new("unshare");
    let tried = unshare.args(["--mount", "chroot", "--userspec=65532:65532", "/", "true"]).output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("no root of its own: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("no root of its own: unshare: {error}")),
    }
}

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// The binary, and what it is linked to.
fn put_binary(root: &Path) {
    let binary = embedded_server::binary().unwrap();
    // By another process: a file that this one had open for writing may be refused to be executed.
    let copied = Command::new("cp").arg(&binary).arg(root.join("muster")).status().unwrap();
    assert!(copied.success());
    let told = Command::new("ldd").arg(&binary).output().unwrap().stdout;
    let told = String::from_utf8(told).unwrap();
    for library in told.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(library, to).unwrap();
    }
}

/// What a kubelet gives every pod of this account.
fn put_account(real: &RealCluster, root: &Path) {
    let path = format!("{SPACE}/serviceaccounts/muster-operator/token");
    let wanted = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let made = real.server.send("POST", &path, &RequestStep::default(), wanted.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body.to_json());
    put(root, &format!("{ACCOUNT}/token"), made.body.str_at(&["status", "token"]).as_bytes());
    put(root, &format!("{ACCOUNT}/ca.crt"), &std::fs::read(real.certificate()).unwrap());
    put(root, &format!("{ACCOUNT}/namespace"), b"muster-system");
}

/// Nothing routes to a Service here: it is another name of this machine.
fn lead_here(real: &RealCluster) {
    let services = format!("{SPACE}/services");
    let gone = real.server.send(
        "DELETE",
        &format!("{services}/muster-webhook"),
        &RequestStep::default(),
        Vec::new(),
    );
    assert_eq!(gone.unwrap().code, 200);
    let local = tree!({"metadata": {"name": "muster-webhook"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let made = real.server.send("POST", &services, &RequestStep::default(), local.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body.to_json());
}

/// The arguments of the Deployment with other ports: a pod has a network of its own, here all processes share one.
fn arguments(real: &RealCluster, webhook: u16, health: u16) -> Vec<String> {
    let deployment = real.server.get(OPERATOR).unwrap().body;
    let container = deployment.items_at(&["spec", "template", "spec", "containers"])[0].clone();
    let words = container.items_at(&["args"]).iter().map(|it| it.as_str().unwrap().to_owned());
    let mut words: Vec<String> = words
        .filter(|it| !it.contains("-listen="))
        .map(|it| it.replace("$(POD_NAMESPACE)", "muster-system"))
        .collect();
    assert!(words.contains(&"--namespace=muster-system".to_owned()), "{words:?}");
    words.push(format!("--webhook-listen=127.0.0.1:{webhook}"));
    words.push(format!("--health-listen=127.0.0.1:{health}"));
    words
}

fn start(real: &RealCluster, root: &Path, arguments: &[String], log: &Path) -> Inside {
    let (host, port) = real.server.base().trim_start_matches("https://").rsplit_once(':').unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", ENTER]).arg(root).args(arguments);
    unshare.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("POD_NAMESPACE", "muster-system");
    unshare.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
    let log = std::fs::File::create(log).unwrap();
    unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Inside(unshare.spawn().expect("unshare starts"))
}

fn ready(inside: &mut Inside, port: u16, log: &Path) {
    let address = format!("http://127.0.0.1:{port}/readyz");
    for _ in 0..TRIES {
        if ureq::get(&address).call().is_ok() {
            return;
        }
        if let Ok(Some(ended)) = inside.0.try_wait() {
            panic!("it ended with {ended}: {}", std::fs::read_to_string(log).unwrap_or_default());
        }
        std::thread::sleep(PAUSE);
    }
    panic!("it was never ready: {}", std::fs::read_to_string(log).unwrap_or_default());
}

#[test]
fn the_operator_runs_in_an_empty_root_as_nobody() {
    let test = "the_operator_runs_in_an_empty_root_as_nobody";
    if let Some(reason) = real::missing().or_else(impossible) {
        return skip(test, &reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let real = RealCluster::for_install(GangSupport::AllFields).unwrap();
    let kubeconfig: PathBuf = real.kubeconfig(folder.path(), real.server.base()).unwrap();
    let (webhook, health) = (ports::free(), ports::free());
    let installed =
        command(&["install", "--webhook-port", &webhook.to_string()], &kubeconfig).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    lead_here(&real);
    let (root, log) = (folder.path().join("root"), folder.path().join("log"));
    std::fs::create_dir(&root).unwrap();
    put_binary(&root);
    put_account(&real, &root);
    let config = real.server.get(&format!("{SPACE}/configmaps/muster-config")).unwrap().body;
    put(&root, "etc/muster/config.yaml", config.str_at(&["data", "config.yaml"]).as_bytes());
    open_to_all(&root, folder.path());
    let mut inside = start(&real, &root, &arguments(&real, webhook, health), &log);
    ready(&mut inside, health, &log);
    until(&real.server, LEASE, "a leader", |lease| {
        (!lease.str_at(&["spec", "holderIdentity"]).is_empty()).then_some(())
    });
    let set = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"},
        "spec": {"replicatedJobs": []}});
    let sets = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
    admitted(&real, sets, &set);
    let status = std::fs::read_to_string(format!("/proc/{}/status", inside.0.id())).unwrap();
    assert!(status.lines().any(|line| line.starts_with("Uid:\t65532\t65532\t")), "{status}");
    note(
        "muster operator: leads and admits JobSets from an empty, read-only root as user 65532, with the installed account",
    );
}

/// A new authority takes a moment to be believed.
fn admitted(real: &RealCluster, sets: &str, set: &Tree) {
    let mut last = Tree::Null;
    for _ in 0..TRIES {
        let made = real.server.send("POST", sets, &RequestStep::default(), set.to_json_bytes()).unwrap();
        if made.code == 201 {
            assert_eq!(made.body.str_at(&["spec", "successPolicy", "operator"]), "All", "it was filled in");
            return;
        }
        last = made.body;
        std::thread::sleep(PAUSE);
    }
    panic!("never admitted: {}", last.to_json());
}

/// The user of a pod can read its files; temporary directories are private to the user of the test.
fn open_to_all(root: &Path, folder: &Path) {
    for (path, mode) in [(folder, "755"), (root, "755")] {
        assert!(Command::new("chmod").arg(mode).arg(path).status().unwrap().success());
    }
}
