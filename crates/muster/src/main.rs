//! The `muster` command: parses flags, wires the parts, prints results. All decisions are made in the other crates.

mod agent;
mod cli;
mod control_plane;
mod embedded;
mod in_process_kubelet;
mod install;
mod local;
mod node;
mod nodes;
mod port_owner;
mod resource_metrics;
mod run;
mod secure_fs;
mod settings;
mod snapshot;
mod up;
mod why;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use muster_tree::{Tree, tree};

/// The exit code when a command could not be run; a run with failed work exits with 1.
const COULD_NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    // Container supervisors are this program, re-executed with hidden arguments. They set up namespaces, which the
    // kernel allows only while the process has one thread: they must be dispatched before any runtime starts.
    if let Some(code) = muster_process::run_hidden_command(std::env::args_os()) {
        return code;
    }
    let done: Result<(), Box<dyn Error>> = match cli::Cli::parse().command {
        cli::Command::Up(flags) => up::run(*flags).map_err(Into::into),
        cli::Command::Run(flags) => match run::run(&flags) {
            Ok(code) => return code,
            Err(error) => Err(error.into()),
        },
        cli::Command::Agent(flags) => match agent::run(&flags) {
            Ok(code) => return code,
            Err(error) => Err(error.into()),
        },
        cli::Command::Node(flags) => node::run(&flags).map_err(Into::into),
        cli::Command::Operator(flags) => muster_operator::run(&flags).map_err(Into::into),
        cli::Command::Install(flags) => install::run(&flags).map_err(Into::into),
        cli::Command::Why(flags) => match why::run(&flags) {
            Ok(code) => return code,
            Err(error) => Err(error.into()),
        },
        cli::Command::Crds(flags) => {
            print_definitions(flags.output);
            Ok(())
        }
        cli::Command::Snapshot(command) => snapshot::run(&command).map_err(Into::into),
        cli::Command::Version => {
            print_version();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// Prints the CRDs that an operator needs on a cluster; `muster up` installs its own.
#[expect(clippy::print_stdout, reason = "data of the command line goes to stdout")]
fn print_definitions(how: cli::Output) {
    let all = muster_install::crds();
    match how {
        cli::Output::Json => {
            println!("{}", tree!({"apiVersion": "v1", "kind": "List", "items": Tree::list(all)}).to_json());
        }
        cli::Output::Yaml => all.iter().for_each(|definition| print!("---\n{}", definition.to_yaml())),
    }
}

#[expect(clippy::print_stdout, reason = "data of the command line goes to stdout")]
fn print_version() {
    let kubernetes = muster_apiserver::http::health::KUBERNETES_VERSION;
    println!("muster {} (Kubernetes API {kubernetes})", env!("CARGO_PKG_VERSION"));
}
