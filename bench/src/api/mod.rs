//! Our server and the real one under the same client, request by request: throughput, latency, CPU and memory.
//!
//! Each server is started alone, gets the same requests in the same order and ends before the next one starts. Both
//! speak HTTP/1.1 over TLS on loopback and run no controllers, so that only the API is measured.
//!
//! # Deliberately absent
//!
//! Verdicts. The machine may be busy; the ratios of one run are what can be compared.

mod load;
mod table;

use std::path::Path;
use std::time::Instant;

use muster_tests::real::{Disk, RealCluster};
use tempfile::TempDir;

use self::load::{Load, Row};
use crate::client::Target;
use crate::up;

/// What the command line says.
pub struct Options {
    load: Load,
    /// Less of everything, to see that it works.
    pub quick: bool,
    pub disk: Disk,
    /// Only those whose name, or that of their load, has these words; all when empty.
    pub only: String,
    pub json: bool,
}

impl Options {
    pub fn read(flags: &[&str]) -> Result<Options, String> {
        let mut options =
            Options { load: Load::FULL, quick: false, disk: Disk::Synced, only: String::new(), json: false };
        let mut rest = flags.iter();
        while let Some(flag) = rest.next() {
            match *flag {
                "--quick" => (options.load, options.quick) = (Load::QUICK, true),
                "--etcd-no-fsync" => options.disk = Disk::Unsynced,
                "--only" => options.only = (*rest.next().ok_or("--only what?")?).to_owned(),
                "-o" if rest.next() == Some(&"json") => options.json = true,
                other => {
                    return Err(format!(
                        "{other}: not a bench, --quick, --etcd-no-fsync, --only WORDS or -o json"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// One server and what it did.
struct Server {
    name: &'static str,
    /// How it was started, as far as it matters for the figures.
    how: &'static str,
    rows: Vec<Row>,
}

/// Runs it and prints it.
pub fn run(options: &Options) {
    let folder = TempDir::new().expect("a folder can be made");
    let began = Instant::now();
    let mut servers = vec![
        ours("ours, ephemeral", "--ephemeral", &["--ephemeral"], folder.path(), &options.load),
        ours(
            "ours, durable",
            "every commit synced to disk",
            &["--data-dir", &folder.path().join("data").display().to_string()],
            folder.path(),
            &options.load,
        ),
    ];
    match real(options) {
        Ok(real) => servers.push(real),
        Err(why) => eprintln!("no real server to compare with: {why}"),
    }
    if options.json {
        println!("{}", table::json(&servers));
    } else {
        println!("{}", table::text(&servers, &options.load, began.elapsed()));
    }
}

fn ours(name: &'static str, how: &'static str, args: &[&str], folder: &Path, load: &Load) -> Server {
    eprintln!("{name}");
    let kubeconfig = folder.join(format!("{}.kubeconfig", args[0]));
    let args: Vec<&str> = args
        .iter()
        .copied()
        .chain(["--sim-nodes", "0", "--controllers", "", "--admission", ADMISSION])
        .collect();
    let mut child = up::start(&kubeconfig.display().to_string(), &args);
    let rows = load.run(&Target::of_kubeconfig(&kubeconfig), &[child.id()]);
    child.kill().and_then(|()| child.wait()).expect("it was running");
    Server { name, how, rows }
}

/// The real one runs without this step as well: no controller creates ServiceAccounts there.
const ADMISSION: &str = "*,-ServiceAccount";

fn real(options: &Options) -> Result<Server, String> {
    let real = RealCluster::start_without_controllers(options.disk)?;
    eprintln!("kube + etcd");
    let how = match options.disk {
        Disk::Synced => "kube-apiserver, and etcd that syncs every commit to disk",
        Disk::Unsynced => "kube-apiserver, and etcd with --unsafe-no-fsync",
    };
    let rows = options.load.run(&Target::of_token(real.server.base(), real.token()), &real.pids());
    Ok(Server { name: "kube + etcd", how, rows })
}
