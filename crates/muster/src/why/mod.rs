//! `muster why`: why something waits, in words or as JSON.
//!
//! The server's own explanation is asked for first. Where nobody serves it, conditions, events and objects tell what
//! they can: that works on every cluster.

mod gather;
mod name;
mod tell;
mod train;

use std::io;
use std::process::ExitCode;

use muster_cluster::{ConnectError, KubeApi};
use muster_tree::Tree;

use crate::cli::{Output, WhyFlags};
use gather::GatherError;
pub use gather::about;
pub use name::{Name, What};
pub use tell::Found;

/// Why nothing is explained.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// What was asked for.
    #[error(transparent)]
    Name(#[from] name::NameError),
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No answer.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// A file.
    #[error("reading {path}: {problem}")]
    File {
        /// Which.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Explains.
///
/// # Errors
/// There is nothing to explain, or nobody to ask.
pub fn run(flags: &WhyFlags) -> Result<ExitCode, WhyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(explain(flags))
}

async fn explain(flags: &WhyFlags) -> Result<ExitCode, WhyError> {
    let found = match (&flags.what, &flags.file) {
        (Some(what), _) => {
            let asked = name::Name::of(what)?;
            let api = KubeApi::connect(flags.kubeconfig.as_deref()).await?;
            let namespace = flags.namespace.clone().unwrap_or_else(|| api.namespace().to_owned());
            gather::about(&api, &asked, &namespace).await?
        }
        (None, file) => {
            let manifest = manifest(file.as_deref().unwrap_or_default())?;
            let api = KubeApi::connect(flags.kubeconfig.as_deref()).await?;
            let own = manifest.str_at(&["metadata", "namespace"]);
            let own = Some(own).filter(|it| !it.is_empty()).map(str::to_owned);
            let namespace = flags.namespace.clone().or(own).unwrap_or_else(|| api.namespace().to_owned());
            gather::try_out(&api, &manifest, &namespace).await?
        }
    };
    print(&found.data(), &found, flags.output);
    Ok(ExitCode::SUCCESS)
}

/// The one object of a file.
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
fn print(data: &Tree, found: &tell::Found, how: Option<Output>) {
    match how {
        Some(Output::Json) => println!("{}", data.to_json()),
        Some(Output::Yaml) => print!("{}", data.to_yaml()),
        None => found.lines().iter().for_each(|line| println!("{line}")),
    }
}
