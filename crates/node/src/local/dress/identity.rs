//! Who a container runs as, and what it may use.

use muster_api::paths::{container as path, pod as pod_path};
use muster_api::{meta, quantity};
use muster_process::{Identity, Isolation, Limits};
use muster_tree::Tree;

use super::{House, Problem, fields};

/// Most processes and threads of a container: far more than training needs, far less than a machine bears.
pub(super) const PROCESSES_MAX: u32 = 4096;

/// Who a container runs as.
pub(super) fn of(pod: &Tree, container: &Tree, house: &House<'_>) -> Result<Identity, Problem> {
    let told = |own: &[&str], all: &[&str]| container.int_at(own).or(pod.int_at(all));
    let uid = number(told(path::RUN_AS_USER, pod_path::RUN_AS_USER));
    let gid = number(told(path::RUN_AS_GROUP, pod_path::RUN_AS_GROUP));
    let further = pod.items_at(pod_path::GROUPS).iter().map(Tree::as_int);
    let groups = std::iter::once(pod.int_at(pod_path::FS_GROUP)).chain(further).filter_map(number);
    let mut user = Identity { uid, gid, groups: groups.collect() };
    let non_root = container.bool_at(path::NON_ROOT).or(pod.bool_at(pod_path::NON_ROOT));
    if non_root == Some(true) {
        refuse_root(pod, container, house, &mut user).map_err(Problem::with_container)?;
    }
    Ok(user)
}

/// The container may not be root. A server that is an ordinary user is root in its own namespaces; there the container
/// keeps the server's number.
fn refuse_root(pod: &Tree, container: &Tree, house: &House<'_>, user: &mut Identity) -> Result<(), String> {
    let who = || {
        let (name, namespace, uid) = (meta::name(pod), meta::namespace(pod), meta::uid(pod));
        format!("(pod: \"{name}_{namespace}({uid})\", container: {})", container.str_at(path::NAME))
    };
    match (user.uid, house.user.0) {
        (Some(0), _) => Err(format!("container's runAsUser breaks non-root policy {}", who())),
        (None, _) if house.images => Err(format!(
            "container has runAsNonRoot, and the user of its image is not known here: set runAsUser {}",
            who()
        )),
        (None, 0) => Err(format!("container has runAsNonRoot and image will run as root {}", who())),
        (None, own) if house.isolation == Isolation::Namespaces => {
            user.uid = Some(own);
            user.gid = user.gid.or(Some(house.user.1));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn number(told: Option<i64>) -> Option<u32> {
    told.and_then(|it| u32::try_from(it).ok())
}

/// What a container may use: its own limits, else those of the pod as a whole.
pub(super) fn limits(pod: &Tree, container: &Tree) -> Limits {
    let told = |name: &str, scale: fn(&str) -> Option<i64>| {
        let of = |tree: &Tree, list: &[&str]| tree.at(list)?.get(name).and_then(fields::amount);
        let text = of(container, path::LIMITS).or_else(|| of(pod, pod_path::LIMITS))?;
        scale(&text).and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0)
    };
    Limits {
        cpu_millis: told("cpu", quantity::milli),
        memory_bytes: told("memory", quantity::whole),
        processes: PROCESSES_MAX,
    }
}
