//! `muster why`: explains why a workload is pending, as text or as data.
//!
//! The explanation API of Muster is requested first. A server without it is explained from conditions, events and
//! objects, so the command works on every cluster.

mod collect;
mod report;
mod target;
mod train_job;

use std::io;
use std::process::ExitCode;

use muster_cluster::{ConnectError, KubeApi};
use muster_tree::Tree;

use crate::cli::{Output, WhyFlags};
use collect::CollectError;
pub use collect::collect;
pub use report::WhyReport;
pub use target::{ExplainTarget, ExplainableKind};

/// Nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// The argument is not `KIND/NAME`.
    #[error(transparent)]
    Name(#[from] target::TargetNameError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Gather(#[from] CollectError),
    #[error("reading {path}: {problem}")]
    File { path: String, problem: String },
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// # Errors
/// The object does not exist, or the API server cannot be reached.
pub fn run(flags: &WhyFlags) -> Result<ExitCode, WhyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(explain(flags))
}

async fn explain(flags: &WhyFlags) -> Result<ExitCode, WhyError> {
    let found = match (&flags.what, &flags.file) {
        (Some(what), _) => {
            let asked = target::ExplainTarget::of(what)?;
            let api = KubeApi::connect(flags.kubeconfig.as_deref()).await?;
            let namespace = flags.namespace.clone().unwrap_or_else(|| api.namespace().to_owned());
            collect::collect(&api, &asked, &namespace).await?
        }
        (None, file) => {
            let manifest = manifest(file.as_deref().unwrap_or_default())?;
            let api = KubeApi::connect(flags.kubeconfig.as_deref()).await?;
            let own = manifest.str_at(&["metadata", "namespace"]);
            let own = Some(own).filter(|it| !it.is_empty()).map(str::to_owned);
            let namespace = flags.namespace.clone().or(own).unwrap_or_else(|| api.namespace().to_owned());
            collect::dry_run(&api, &manifest, &namespace).await?
        }
    };
    print(&found.data(), &found, flags.output);
    Ok(ExitCode::SUCCESS)
}

/// The manifest of a file, which must contain exactly one.
fn manifest(path: &str) -> Result<Tree, WhyError> {
    let wrong = |problem: String| WhyError::File { path: path.to_owned(), problem };
    let text = if path == "-" { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|e| wrong(e.to_string()))?;
    let all = Tree::parse_yaml_lines(&text).map_err(|e| wrong(e.to_string()))?;
    let mut all = all.into_iter().map(|(tree, _)| tree).filter(|it| !it.is_null());
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(wrong("it must hold one manifest".to_owned())),
    }
}

#[expect(clippy::print_stdout, reason = "the explanation is the data of this command")]
fn print(data: &Tree, found: &report::WhyReport, how: Option<Output>) {
    match how {
        Some(Output::Json) => println!("{}", data.to_json()),
        Some(Output::Yaml) => print!("{}", data.to_yaml()),
        None => found.lines().iter().for_each(|line| println!("{line}")),
    }
}
