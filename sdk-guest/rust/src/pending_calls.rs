use crate::calls::{plugin_mut, Guest};
use crate::klog;
use crate::node_info::ResidentPod;
use crate::pending_pods::{KeepsPending, PendingPods};
use crate::pod::Pod;
use crate::pod_records::{Record, State};
use crate::status::Status;

impl<P: KeepsPending> Guest<P> {
    /// A plugin that cannot be made says so when it is asked.
    pub fn pending_pods_changed(&mut self, count: usize) {
        if let Ok(plugin) = plugin_mut(&mut self.plugin) {
            self.records.first(count).for_each(|record| tell(plugin.pending(), record));
        }
    }
}

fn tell<T: ResidentPod>(pods: &mut PendingPods<T>, record: Record) {
    match record.state {
        State::Gone => pods.remove(record.pod),
        _ if record.object.is_empty() => {}
        _ => match T::new(&Pod::new(record.object.to_vec())) {
            Ok(pod) => pods.put(record.pod, pod),
            Err(error) => {
                let reason = Status::from(error).reason;
                klog::error(format_args!("a pod without a node cannot be read, and does not count: {}", reason));
                pods.remove(record.pod);
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::tell;
    use crate::pending_pods::PendingPods;
    use crate::pod_records::{Record, State};

    #[test]
    fn a_pod_that_is_as_it_was_stays() {
        let mut pods = PendingPods::<()>::default();
        let told = [(State::There, &b"\x0a\x00"[..], 1), (State::There, b"", 1), (State::Gone, b"", 0)];
        for (state, object, left) in told {
            tell(&mut pods, Record { pod: 4, node: u32::MAX, state, object });
            assert_eq!(pods.iter().count(), left);
        }
    }
}
