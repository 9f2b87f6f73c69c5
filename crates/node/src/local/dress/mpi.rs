//! MPI over SSH, whose programs must be on this machine.

use std::path::Path;

use muster_api::paths::{pod as pod_path, pod_volume};
use muster_api::train::made::mpi::SSH_VOLUME;
use muster_tree::Tree;

use super::{House, Problem, disk};

/// What is needed: one listens, the other starts.
const SSHD: &str = "sshd";
const MPIRUN: &str = "mpirun";
/// Where the first is, on machines whose users do not look there.
const SYSTEM_FOLDERS: &str = "/usr/sbin:/usr/local/sbin";

/// Refuses to run one of them where not both are: a job of MPI would hang half started.
///
/// # Errors
/// What is missing, and what to do.
pub(super) fn check(pod: &Tree, argv: &[String], house: &House<'_>) -> Result<(), Problem> {
    let program = argv.first().and_then(|it| Path::new(it).file_name()?.to_str());
    let is_one = program.is_some_and(|it| [SSHD, MPIRUN].contains(&it));
    let volumes = pod.items_at(pod_path::VOLUMES);
    let over_ssh = volumes.iter().any(|it| it.str_at(pod_volume::NAME) == SSH_VOLUME);
    if house.images || !is_one || !over_ssh {
        return Ok(());
    }
    let search = format!("{}:{SYSTEM_FOLDERS}", house.search_path);
    let missing: Vec<&str> =
        [SSHD, MPIRUN].into_iter().filter(|it| !disk::has_program(&search, it)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::with_container(format!(
        "MPI over SSH needs sshd and mpirun on this machine, and there is no {}: install OpenSSH and Open MPI, \
         or run images with `--runtime docker` or `podman`",
        missing.join(" and no ")
    )))
}
