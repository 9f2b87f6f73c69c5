//! Security context and resource limits of a container.

use muster_api::paths::{container as path, pod as pod_path};
use muster_api::{meta, quantity};
use muster_process::{Isolation, ResourceLimits, RunAs};
use muster_tree::Tree;

use super::{ContainerConfigError, PodContext, downward_api};

/// Default `pids.max` of a container: far more than training needs, far less than exhausts a host.
pub(super) const PROCESSES_MAX: u32 = 4096;

/// User, group and supplementary groups of a container.
pub(super) fn of(
    pod: &Tree,
    container: &Tree,
    context: &PodContext<'_>,
) -> Result<RunAs, ContainerConfigError> {
    let told = |own: &[&str], all: &[&str]| container.int_at(own).or(pod.int_at(all));
    let uid = number(told(path::RUN_AS_USER, pod_path::RUN_AS_USER));
    let gid = number(told(path::RUN_AS_GROUP, pod_path::RUN_AS_GROUP));
    let further = pod.items_at(pod_path::GROUPS).iter().map(Tree::as_int);
    let groups = std::iter::once(pod.int_at(pod_path::FS_GROUP)).chain(further).filter_map(number);
    let mut user = RunAs { uid, gid, groups: groups.collect() };
    let non_root = container.bool_at(path::NON_ROOT).or(pod.bool_at(pod_path::NON_ROOT));
    if non_root == Some(true) {
        enforce_non_root(pod, container, context, &mut user).map_err(ContainerConfigError::with_container)?;
    }
    Ok(user)
}

/// Enforces `runAsNonRoot`. A rootless server is root in its own user namespaces; there the container keeps the
/// server's UID.
fn enforce_non_root(
    pod: &Tree,
    container: &Tree,
    context: &PodContext<'_>,
    user: &mut RunAs,
) -> Result<(), String> {
    let container_ref = || {
        let (name, namespace, uid) = (meta::name(pod), meta::namespace(pod), meta::uid(pod));
        format!("(pod: \"{name}_{namespace}({uid})\", container: {})", container.str_at(path::NAME))
    };
    match (user.uid, context.user.0) {
        (Some(0), _) => Err(format!("container's runAsUser breaks non-root policy {}", container_ref())),
        (None, _) if context.images => Err(format!(
            "container has runAsNonRoot, and the user of its image is not known here: set runAsUser {}",
            container_ref()
        )),
        (None, 0) => {
            Err(format!("container has runAsNonRoot and image will run as root {}", container_ref()))
        }
        (None, own) if context.isolation == Isolation::Namespaces => {
            user.uid = Some(own);
            user.gid = user.gid.or(Some(context.user.1));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn number(told: Option<i64>) -> Option<u32> {
    told.and_then(|it| u32::try_from(it).ok())
}

/// Resource limits of a container, or those of the pod.
pub(super) fn limits(pod: &Tree, container: &Tree) -> ResourceLimits {
    let told = |name: &str, scale: fn(&str) -> Option<i64>| {
        let of = |tree: &Tree, list: &[&str]| tree.at(list)?.get(name).and_then(downward_api::amount);
        let text = of(container, path::LIMITS).or_else(|| of(pod, pod_path::LIMITS))?;
        scale(&text).and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0)
    };
    ResourceLimits {
        cpu_millis: told("cpu", quantity::milli),
        memory_bytes: told("memory", quantity::whole),
        processes: PROCESSES_MAX,
    }
}
