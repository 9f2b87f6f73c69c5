//! What admission may look at, read from a cluster.
//!
//! # Invariants
//!
//! - Reads have slots of their own: a call of our controllers may be waiting for the very answer that needs them.
//! - No read takes longer than [`READ_TIME_MAX`]: the server gives up soon after.
//!
//! # Deliberately absent
//!
//! A cache: what is read decides whether something is kept, and has to be true now.

use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Act, Call, Guard, Kind, Part, Refusal, Target};
use muster_cluster::KubeApi;
use muster_jobset::admission::Live;
use muster_tree::{Tree, literal};
use tokio::runtime::Handle;

/// How long one read may take.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// Objects of a cluster. Wants to be asked outside the threads of the runtime.
pub struct LiveCluster {
    api: KubeApi,
    runtime: Handle,
}

impl LiveCluster {
    /// Those that this connection shows. Wants to be called inside a runtime.
    pub fn new(api: &KubeApi) -> LiveCluster {
        LiveCluster { api: api.beside(), runtime: Handle::current() }
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        let (kind, namespace) = (kind.clone(), namespace.into());
        let on = Target { kind, namespace, name: name.into(), part: Part::Main };
        let call = Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Get };
        match self.wait(self.api.perform(&call)) {
            Ok(object) => Ok(Some(object.tree)),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal.words()),
        }
    }

    fn wait<T>(&self, read: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
        let late =
            |_| Err(Refusal::Unknown(format!("the API server did not answer within {READ_TIME_MAX:?}")));
        self.runtime.block_on(async { tokio::time::timeout(READ_TIME_MAX, read).await.unwrap_or_else(late) })
    }
}

impl Live for LiveCluster {
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        self.get(&kinds::CLAIMS, namespace, name)
    }

    fn node(&self, name: &str) -> Result<Option<Tree>, String> {
        self.get(&kinds::NODES, "", name)
    }

    fn pods(&self, namespace: &str, label: &str, value: &str) -> Result<Vec<Tree>, String> {
        let all = self.wait(self.api.labelled(&kinds::PODS, namespace, label, value));
        Ok(all.map_err(|refusal| refusal.words())?.into_iter().map(|object| object.tree).collect())
    }
}
