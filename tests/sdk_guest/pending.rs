//! Tells which pods have no node, for tests: it rejects every pod, and the reason is their names and jobs.

use guest::{KeepsPending, NodeInfo, PendingPods, Plugin, Pod, PreFilter, ResidentPod, Residents, Result, Status};

struct Teller {
    pending: PendingPods<Told>,
}

/// Name and job.
struct Told(String);

impl ResidentPod for Told {
    fn new(pod: &Pod) -> Result<Told> {
        let metadata = pod.metadata()?;
        let [name, job] = [metadata.name()?, metadata.label("job")?.unwrap_or_default()].map(String::from_utf8_lossy);
        Ok(Told(format!("{}={}", name, job)))
    }
}

impl Plugin for Teller {
    type Wish = ();
    type Resident = NodeInfo<()>;

    fn new() -> Result<Teller> {
        Ok(Teller { pending: PendingPods::default() })
    }

    fn wish(&self, _: &Pod) -> Result<()> {
        Ok(())
    }

    fn resident(&self, name: &[u8]) -> Result<NodeInfo<()>> {
        NodeInfo::new(&guest::node(name).unwrap_or_default(), ())
    }

    fn prefilter(&self, _: &mut (), nodes: &Residents<NodeInfo<()>>) -> PreFilter {
        let mut told: Vec<&str> = self.pending.iter().map(|pod| pod.0.as_str()).collect();
        told.sort_unstable();
        let on_nodes: usize = nodes.iter().map(|(_, node)| node.pods().count()).sum();
        Status::unschedulable(format!("[{}] and {} on nodes", told.join(" "), on_nodes)).into()
    }
}

impl KeepsPending for Teller {
    type Pending = Told;

    fn pending(&mut self) -> &mut PendingPods<Told> {
        &mut self.pending
    }
}

guest::export!(Teller: prefilter; pods, pending);
