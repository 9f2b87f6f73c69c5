//! `muster run`: submits work, follows it until it finishes, prints a summary, and deletes what it created.
//!
//! Without `--kubeconfig` it starts the embedded control plane in this process, and then uses it over HTTP as it would
//! use any other API server: there is one code path for both.
//!
//! # Guarantees
//!
//! - Nothing is submitted before all documents have passed the checks of [`plan`].
//! - Exit codes: 0 completed, 1 failed, 2 could not be run, 124 timed out, 130 and 143 for SIGINT and SIGTERM.
//! - Objects that this run created are deleted unless `--keep` is set; existing objects are never deleted.

mod display;
mod explanations;
mod files;
mod follow;
pub mod format;
mod gang_rewrite;
mod hidden_program;
mod logs;
mod plan;
pub mod pods;
pub mod ranks;
mod signals;
mod snapshot;
mod submit;
mod summary;
mod target;
#[cfg(test)]
mod tests;
mod work;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use muster_api::client::ApiError;
use muster_api::environment::Entropy;
use muster_cluster::{KubeApi, ServedResource};
use muster_operator::log;
use muster_operator::ports::SystemEntropy;
use muster_tree::{Tree, tree};

use crate::cli::{Isolation, Output, RunFlags};
use display::{DisplayOptions, RunDisplay};
use explanations::NodeSupply;
use files::{Document, FilesError, Origin};
use follow::WorkFollower;
use plan::{PlanError, PlannedObject};
use ranks::HostMount;
use signals::Signals;
use submit::{SubmitError, Submitted};
use summary::{RunResult, Summary};
use target::{RunTarget, TargetError, TargetServer};

/// The work could not be run: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A document cannot be submitted.
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("API discovery failed: {}\n\nhint: check that the API server is healthy", .0.message())]
    Discovery(ApiError),
    /// The server rejected an object.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// `-o yaml` without `--dry-run`.
    #[error("`-o yaml` goes with `--dry-run`\n\nhint: `-o json` prints the summary for machines")]
    YamlSummary,
    #[error("the controllers crashed; the error is logged above\n\nhint: start again, and report the error")]
    Crashed,
    /// A source of `--mount` does not exist.
    #[error(transparent)]
    Mount(#[from] ranks::MountError),
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// How long pods of an embedded control plane may be blocked on a missing object before the run ends as stuck.
const BLOCKED_MAX: Duration = Duration::from_secs(20);

/// Runs the work and returns its exit code.
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
    let code = runtime.block_on(run_on_target(flags, &documents));
    // A blocking read of standard input, or of a server that does not answer, must not delay the exit.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::from(code?))
}

/// The manifests of `-f`, or those generated for `--ranks`.
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
        extra_env: flags.env.clone(),
        mounts: flags.mounts.iter().map(HostMount::canonical).collect::<Result<_, _>>()?,
    };
    let isolated = flags.isolation != Some(Isolation::None) && flags.kubeconfig.is_none();
    if isolated && flags.sim_nodes.is_none() && flags.nodes.is_none() {
        hidden_program::warning(&ranks).iter().for_each(|words| eprintln!("{words}"));
    }
    let origin = |number| Origin { file: "--ranks".to_owned(), number };
    let trees = ranks::objects(&ranks, &ranks::name(chance[0])).into_iter().enumerate();
    Ok(trees.map(|(at, tree)| Document { origin: origin(at + 1), tree }).collect())
}

async fn run_on_target(flags: &RunFlags, documents: &[Document]) -> Result<u8, RunError> {
    // Signal handlers are installed before the start, so that a signal during the start is not lost.
    let signals = Signals::listen()?;
    let (site, mut ground) = RunTarget::prepare(flags).await?;
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
    site: &TargetServer,
    signals: &Signals,
) -> Result<u8, RunError> {
    let api = &site.api;
    let served = api.served_resources().await.map_err(RunError::Discovery)?;
    let namespace = flags.namespace.as_deref().unwrap_or(api.namespace());
    let documents = rewrite_gangs(api, &served, namespace, documents).await?;
    let mut items = plan::plan(&documents, &served, namespace)?;
    if site.own_kubeconfig.is_some() {
        // A new control plane has only the default namespaces. On a cluster a missing namespace is an error: it may be a
        // typing mistake, and creating it needs permissions that the user may not have.
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
        Ok(()) => Ok(signals.first().unwrap_or(RunResult::Interrupted)),
        Err(error) => Err(error),
    };
    clean_up(flags, site, &submitted, outcome.is_ok(), signals).await;
    Ok(outcome?.code())
}

/// Rewrites gang manifests to the API version of gangs that the server serves, and prints what was rewritten. Without a
/// gang API the documents stay as they are, and the plan rejects them.
async fn rewrite_gangs(
    api: &KubeApi,
    served: &[ServedResource],
    namespace: &str,
    documents: &[Document],
) -> Result<Vec<Document>, RunError> {
    if !gang_rewrite::uses_proposed_api(documents) {
        return Ok(documents.to_vec());
    }
    let Some(found) = muster_operator::podgroup_detect::detect(api, served, namespace).await else {
        return Ok(documents.to_vec());
    };
    let done = gang_rewrite::rewrite(documents, found)?;
    done.summary.iter().for_each(|words| eprintln!("{words}"));
    Ok(done.documents)
}

/// Follows the work until it finishes, then prints the summary.
async fn work(flags: &RunFlags, site: &TargetServer, submitted: &Submitted, signals: &Signals) -> RunResult {
    let json = flags.output == Some(Output::Json);
    let screen = RunDisplay::new(DisplayOptions { progress: !flags.quiet, logs: !flags.no_logs, json });
    let nodes = if site.own_kubeconfig.is_some() { NodeSupply::Fixed } else { NodeSupply::MayGrow };
    let mut watching = WorkFollower::start(&site.api, submitted.works.clone(), screen, nodes);
    // No other client creates missing objects on an embedded control plane, so a blocked pod stays blocked.
    let held_max = site.own_kubeconfig.as_ref().map(|_| BLOCKED_MAX);
    let outcome = watching.run_until_done(flags.timeout, held_max, signals).await;
    if !matches!(outcome, RunResult::Completed | RunResult::Failed) {
        let signals_so_far = usize::from(matches!(outcome, RunResult::Interrupted | RunResult::Terminated));
        watching.terminate(signals, signals_so_far).await;
    }
    let summary = watching.finish(outcome).await;
    print_summary(&summary, json, flags.quiet);
    outcome
}

fn print_summary(summary: &Summary, json: bool, quiet: bool) {
    if json {
        print(&format!("{}\n", summary.tree().to_json()));
    } else if !quiet || summary.outcome != RunResult::Completed {
        eprint!("\n{}", summary.text());
    }
}

/// Deletes the created objects. An embedded control plane keeps them in memory only, so nothing is deleted there.
async fn clean_up(
    flags: &RunFlags,
    site: &TargetServer,
    submitted: &Submitted,
    is_run: bool,
    signals: &Signals,
) {
    if !flags.keep || !is_run {
        if site.own_kubeconfig.is_none() {
            submit::delete_created(&site.api, &submitted.made).await;
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

/// The planned objects, as `--dry-run` prints them.
fn rendered(items: &[PlannedObject], output: Option<Output>) -> String {
    let trees = items.iter().map(|item| item.tree.clone());
    match output {
        Some(Output::Json) => {
            let list = tree!({"apiVersion": "v1", "kind": "List", "items": Tree::list(trees)});
            format!("{}\n", list.to_json())
        }
        _ => trees.map(|tree| tree.to_yaml()).collect::<Vec<_>>().join("---\n"),
    }
}

/// Writes data to stdout. Errors are ignored: a reader such as `head` may have closed the pipe.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
