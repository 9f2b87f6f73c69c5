//! `muster run`: submits work, shows how it goes, tells how it ended, and leaves nothing behind.
//!
//! There is one way to do it: without `--kubeconfig` the embedded plane is started in this process, and then it is
//! talked to as any other API server is.
//!
//! # Invariants
//!
//! - Nothing is submitted before everything that can be checked was checked.
//! - Exit codes: 0 completed, 1 failed, 2 could not be run, 124 time is up, 130 and 143 for signals.
//! - What we made is taken back, unless `--keep` says otherwise; what was there before is left alone.

mod files;
mod gangs;
mod ground;
mod logs;
mod picture;
mod plan;
pub mod pods;
pub mod ranks;
mod screen;
mod signals;
mod submit;
mod summary;
#[cfg(test)]
mod tests;
mod visible;
mod waits;
mod watch;
pub mod words;
mod work;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use muster_api::port::Refusal;
use muster_api::ports::Entropy;
use muster_cluster::{KubeApi, Served};
use muster_operator::log;
use muster_operator::ports::SystemEntropy;
use muster_tree::{Tree, tree};

use crate::cli::{Isolation, Output, RunFlags};
use files::{Document, FilesError, Origin};
use ground::{Ground, GroundError, Site};
use plan::{Item, PlanError};
use ranks::HostMount;
use screen::{Screen, Wanted};
use signals::Signals;
use submit::{SubmitError, Submitted};
use summary::{Outcome, Summary};
use waits::Nodes;
use watch::Watching;

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// What is in them.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The server.
    #[error(transparent)]
    Ground(#[from] GroundError),
    /// The server's kinds.
    #[error("the server does not tell which kinds it has: {}\n\nhint: is it well?", .0.words())]
    Kinds(Refusal),
    /// An object was refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// Flags that make no sense together.
    #[error("`-o yaml` goes with `--dry-run`\n\nhint: `-o json` prints the summary for machines")]
    YamlSummary,
    /// Our plane.
    #[error(
        "the controllers ended by an error of their own, told above\n\nhint: start again, and report the error"
    )]
    Crashed,
    /// A folder to mount.
    #[error(transparent)]
    Mount(#[from] ranks::MountError),
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// How long pods may wait for what nobody will give them.
const HELD_MAX: Duration = Duration::from_secs(20);

/// Runs the work.
///
/// # Errors
/// It could not be run: exit code 2.
pub fn run(flags: &RunFlags) -> Result<ExitCode, RunError> {
    log::start(flags.log_level, flags.log_format);
    if flags.output == Some(Output::Yaml) && !flags.dry_run {
        return Err(RunError::YamlSummary);
    }
    let documents = documents(flags)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(on_ground(flags, &documents));
    // Reads of standard input or of a silent server must not hold up the end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::from(code?))
}

/// The manifests, or those of the ranks.
fn documents(flags: &RunFlags) -> Result<Vec<Document>, RunError> {
    let Some(count) = flags.ranks else {
        return Ok(files::read(&flags.files, &mut io::stdin())?);
    };
    let mut chance = [0];
    SystemEntropy.fill(&mut chance);
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let ranks = ranks::Ranks {
        count,
        command: flags.command.clone(),
        folder: std::env::current_dir()?,
        home: std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.is_dir()),
        env: std::env::vars_os().filter_map(text).collect(),
        also: flags.env.clone(),
        mounts: flags.mounts.iter().map(HostMount::found).collect::<Result<_, _>>()?,
    };
    let isolated = flags.isolation != Some(Isolation::None) && flags.kubeconfig.is_none();
    if isolated && flags.sim_nodes.is_none() && flags.nodes.is_none() {
        visible::warning(&ranks).iter().for_each(|words| eprintln!("{words}"));
    }
    let origin = |number| Origin { file: "--ranks".to_owned(), number };
    let trees = ranks::objects(&ranks, &ranks::name(chance[0])).into_iter().enumerate();
    Ok(trees.map(|(at, tree)| Document { origin: origin(at + 1), tree }).collect())
}

async fn on_ground(flags: &RunFlags, documents: &[Document]) -> Result<u8, RunError> {
    // Signals count from here on: a stop during the start is a stop as well.
    let signals = Signals::listen()?;
    let (site, mut ground) = Ground::prepare(flags).await?;
    let done = tokio::select! {
        done = session(flags, documents, &site, &signals) => done,
        () = ground.crashed() => Err(RunError::Crashed),
    };
    ground.stop().await;
    done
}

async fn session(
    flags: &RunFlags,
    documents: &[Document],
    site: &Site,
    signals: &Signals,
) -> Result<u8, RunError> {
    let api = &site.api;
    let served = api.served().await.map_err(RunError::Kinds)?;
    let namespace = flags.namespace.as_deref().unwrap_or(api.namespace());
    let documents = in_words_of(api, &served, namespace, documents).await?;
    let mut items = plan::plan(&documents, &served, namespace)?;
    if site.own_kubeconfig.is_some() {
        // A new plane has no namespaces that one could have made before.
        items = plan::with_namespaces(&items);
    }
    if flags.dry_run {
        print(&rendered(&items, flags.output));
        return Ok(0);
    }
    let mut submitted = Submitted::default();
    let done = submit::submit(api, &served, &items, signals, &mut submitted).await;
    let outcome = match done {
        Ok(()) if signals.first().is_none() => Ok(work(flags, site, &submitted, signals).await),
        Ok(()) => Ok(signals.first().unwrap_or(Outcome::Interrupted)),
        Err(error) => Err(error),
    };
    tidy(flags, site, &submitted, outcome.is_ok(), signals).await;
    Ok(outcome?.code())
}

/// The documents as this server spells gangs; it is told when that is another way. A server that has no gangs at all
/// refuses them by itself.
async fn in_words_of(
    api: &KubeApi,
    served: &[Served],
    namespace: &str,
    documents: &[Document],
) -> Result<Vec<Document>, RunError> {
    if !gangs::speaks(documents) {
        return Ok(documents.to_vec());
    }
    let Some(found) = muster_operator::gangs::look(api, served, namespace).await else {
        return Ok(documents.to_vec());
    };
    let done = gangs::rewrite(documents, found)?;
    done.said.iter().for_each(|words| eprintln!("{words}"));
    Ok(done.documents)
}

/// Follows the work to its end and tells of it.
async fn work(flags: &RunFlags, site: &Site, submitted: &Submitted, signals: &Signals) -> Outcome {
    let json = flags.output == Some(Output::Json);
    let screen = Screen::new(Wanted { progress: !flags.quiet, logs: !flags.no_logs, json });
    let nodes = if site.own_kubeconfig.is_some() { Nodes::Ours } else { Nodes::Others };
    let mut watching = Watching::start(&site.api, submitted.works.clone(), screen, nodes);
    // On a plane of our own nobody else makes what is missing.
    let held_max = site.own_kubeconfig.as_ref().map(|_| HELD_MAX);
    let outcome = watching.until_over(flags.timeout, held_max, signals).await;
    if !matches!(outcome, Outcome::Completed | Outcome::Failed) {
        let signals_so_far = usize::from(matches!(outcome, Outcome::Interrupted | Outcome::Terminated));
        watching.end(signals, signals_so_far).await;
    }
    let summary = watching.conclude(outcome).await;
    tell(&summary, json, flags.quiet);
    outcome
}

fn tell(summary: &Summary, json: bool, quiet: bool) {
    if json {
        print(&format!("{}\n", summary.tree().to_json()));
    } else if !quiet || summary.outcome != Outcome::Completed {
        eprint!("\n{}", summary.text());
    }
}

/// Takes back what was made. The embedded plane ends with all it has, so there is nothing to take back there.
async fn tidy(flags: &RunFlags, site: &Site, submitted: &Submitted, is_run: bool, signals: &Signals) {
    if !flags.keep || !is_run {
        if site.own_kubeconfig.is_none() {
            submit::take_back(&site.api, &submitted.made).await;
        }
        return;
    }
    if let Some(kubeconfig) = site.own_kubeconfig.as_ref().filter(|_| signals.first().is_none()) {
        eprintln!("\nThe control plane stays until it gets a signal. Look at it in another terminal:");
        eprintln!("  export KUBECONFIG={}", kubeconfig.display());
        eprintln!("  kubectl get jobs,pods,events");
        signals.wait(1).await;
    }
}

/// The plan as `--dry-run` prints it.
fn rendered(items: &[Item], output: Option<Output>) -> String {
    let trees = items.iter().map(|item| item.tree.clone());
    match output {
        Some(Output::Json) => {
            let list = tree!({"apiVersion": "v1", "kind": "List", "items": Tree::list(trees)});
            format!("{}\n", list.to_json())
        }
        _ => trees.map(|tree| tree.to_yaml()).collect::<Vec<_>>().join("---\n"),
    }
}

/// Data goes to stdout. Whoever closed it does not want it.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
