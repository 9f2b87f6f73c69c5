//! Checks that MPI over SSH finds its programs on the host.

use std::path::Path;

use muster_api::paths::{pod as pod_path, pod_volume};
use muster_api::train::generated::mpi::SSH_VOLUME;
use muster_tree::Tree;

use super::{ContainerConfigError, PodContext, volume_manager};

/// The daemon of the workers and the launcher.
const SSHD: &str = "sshd";
const MPIRUN: &str = "mpirun";
/// Directories of sshd that the `PATH` of ordinary users may lack.
const SYSTEM_FOLDERS: &str = "/usr/sbin:/usr/local/sbin";

/// Rejects sshd and mpirun unless both are installed: an MPI job would hang half started.
///
/// # Errors
/// Names the missing program and the remedy.
pub(super) fn check(
    pod: &Tree,
    argv: &[String],
    context: &PodContext<'_>,
) -> Result<(), ContainerConfigError> {
    let program = argv.first().and_then(|it| Path::new(it).file_name()?.to_str());
    let is_one = program.is_some_and(|it| [SSHD, MPIRUN].contains(&it));
    let volumes = pod.items_at(pod_path::VOLUMES);
    let over_ssh = volumes.iter().any(|it| it.str_at(pod_volume::NAME) == SSH_VOLUME);
    if context.images || !is_one || !over_ssh {
        return Ok(());
    }
    let search = format!("{}:{SYSTEM_FOLDERS}", context.search_path);
    let missing: Vec<&str> =
        [SSHD, MPIRUN].into_iter().filter(|it| !volume_manager::has_program(&search, it)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ContainerConfigError::with_container(format!(
        "MPI over SSH needs sshd and mpirun on this machine, and there is no {}: install OpenSSH and Open MPI, \
         or run images with `--runtime docker` or `podman`",
        missing.join(" and no ")
    )))
}
