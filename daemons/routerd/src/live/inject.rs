//! Packets that workers found out to be the kernel's, on their way to it.

use tracing::warn;

use super::Live;

impl Live {
    /// Gives the kernel what workers found out to be its own.
    pub(super) fn empty_kernel_queue(&mut self) {
        while let Some(parcel) = self.backend.router.kernel_packet() {
            let interfaces = self.interfaces.lock().expect("interfaces");
            let origin = interfaces.get(parcel.input);
            let origin = origin.map(|live| (live.interface.index(), live.interface.mode().native));
            drop(interfaces);
            if let (Some(injector), Some((index, native))) = (&mut self.injector, origin) {
                let result = match native {
                    true => injector.inject(index, parcel.packet.data()),
                    false => injector.inject_through_tun(parcel.packet.data()),
                };
                if let Err(error) = result
                    && !std::mem::replace(&mut self.injected_failed, true)
                {
                    warn!(%error, "a packet could not be handed to the kernel; more may follow");
                }
            }
            self.pool.put(parcel.packet.into_frame());
        }
    }
}
