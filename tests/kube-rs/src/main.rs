//! A typical kube-rs controller, run against the server of the kubeconfig in the namespace of the first argument: for every ConfigMap
//! with the label `wish` it applies an owned Secret and sets an annotation.
//!
//! It covers `Controller` with an owned kind (metadata watches), server-side apply, finalizers, a streaming list, typed and dynamic
//! objects. With `streams` as second argument it covers logs, exec, attach and port-forward of pods instead. It exits with an error
//! if anything deviates.

#![expect(clippy::print_stdout, reason = "the progress helps to debug a failed run")]

mod streams;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

const MANAGER: &str = "kube-rs-test";
const FINALIZER: &str = "kube-rs.example.com/tidy";
const WISH: &str = "wish";
const TIMEOUT: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{0}")]
    Kube(#[from] kube::Error),
    #[error("{0}")]
    Finalizer(String),
}

struct World {
    client: Client,
    namespace: String,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let namespace = std::env::args().nth(1).ok_or("usage: kube-rs-test NAMESPACE (with KUBECONFIG set)")?;
    let client = Client::try_default().await?;
    if std::env::args().nth(2).as_deref() == Some("streams") {
        let all = streams::all(client, &namespace);
        return tokio::time::timeout(TIMEOUT, all).await.map_err(|_| "the streams took too long")?;
    }
    let world = Arc::new(World { client: client.clone(), namespace: namespace.clone() });
    let controller = tokio::spawn(control(world.clone()));
    tokio::time::timeout(TIMEOUT, story(&world)).await.map_err(|_| "the story took too long")??;
    tokio::time::timeout(TIMEOUT, dynamic_discovery(&client))
        .await
        .map_err(|_| "discovery took too long")??;
    tokio::time::timeout(TIMEOUT, streaming_list(&world)).await.map_err(|_| "no streaming list")??;
    controller.abort();
    Ok(())
}

async fn control(world: Arc<World>) {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let wished = watcher::Config::default().labels(WISH);
    Controller::new(maps, wished)
        .owns(secrets, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), world)
        .for_each(|outcome| async move {
            if let Err(problem) = outcome {
                eprintln!("{problem}");
            }
        })
        .await;
}

async fn reconcile(map: Arc<ConfigMap>, world: Arc<World>) -> Result<Action, Broken> {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    finalizer(&maps, FINALIZER, map, |event| async {
        match event {
            Event::Apply(map) => grant(&map, &world).await.map_err(Broken::from),
            Event::Cleanup(_) => Ok(Action::await_change()),
        }
    })
    .await
    .map_err(|e| Broken::Finalizer(e.to_string()))
}

/// Applies the owned Secret and annotates the ConfigMap.
async fn grant(map: &ConfigMap, world: &World) -> Result<Action, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let name = map.name_any();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: Some(BTreeMap::from([("wish".to_owned(), map.labels()[WISH].clone())])),
        ..Secret::default()
    };
    let params = PatchParams::apply(MANAGER).force();
    secrets.patch(&name, &params, &Patch::Apply(&secret)).await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let note = json!({"metadata": {"annotations": {"granted": map.labels()[WISH]}}});
    maps.patch(&name, &PatchParams::default(), &Patch::Merge(&note)).await?;
    Ok(Action::await_change())
}

/// The Secret is created, recreated after deletion, updated, and garbage collected.
async fn story(world: &World) -> Result<(), Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let wish = ConfigMap {
        metadata: ObjectMeta {
            name: Some("wish".to_owned()),
            labels: Some(BTreeMap::from([(WISH.to_owned(), "tea".to_owned())])),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &wish).await?;
    until("the Secret", || async { Ok(secrets.get_opt("wish").await?.is_some()) }).await?;
    let first = secrets.get("wish").await?.uid();
    secrets.delete("wish", &DeleteParams::default()).await?;
    until("a second Secret", || async {
        Ok(secrets.get_opt("wish").await?.is_some_and(|secret| secret.uid() != first))
    })
    .await?;
    let change = json!({"metadata": {"labels": {WISH: "coffee"}}});
    maps.patch("wish", &PatchParams::default(), &Patch::Strategic(&change)).await?;
    until("the changed wish", || async {
        let data = secrets.get("wish").await?.data.unwrap_or_default();
        Ok(data.get("wish").is_some_and(|text| text.0 == b"coffee"))
    })
    .await?;
    maps.delete("wish", &DeleteParams::foreground()).await?;
    until("the end of both", || async {
        Ok(maps.get_opt("wish").await?.is_none() && secrets.get_opt("wish").await?.is_none())
    })
    .await
}

async fn until<F>(what: &str, mut look: impl FnMut() -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<bool, kube::Error>>,
{
    for _ in 0..200 {
        if look().await? {
            println!("ok {what}");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(format!("{what}: timed out").into())
}

async fn dynamic_discovery(client: &Client) -> Result<(), Failure> {
    let all = discovery::Discovery::new(client.clone()).run().await?;
    let batch = all.get("batch").ok_or("no group batch")?;
    let (job, abilities) = batch.recommended_kind("Job").ok_or("no kind Job")?;
    if !abilities.supports_operation("watch") {
        return Err("jobs cannot be watched".into());
    }
    let jobs: Api<DynamicObject> = Api::all_with(client.clone(), &job);
    jobs.list(&ListParams::default().limit(5)).await?;
    println!("ok discovery");
    Ok(())
}

async fn streaming_list(world: &World) -> Result<(), Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let events = watcher(maps, watcher::Config::default().streaming_lists());
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.try_next().await? {
        if matches!(event, watcher::Event::InitDone) {
            println!("ok streaming list");
            return Ok(());
        }
    }
    Err("the stream ended".into())
}
