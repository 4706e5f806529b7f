#pragma once

/// Faults for tests of code that uses NCCL. Ranks are those of the communicator that
/// ncclCommInitRank made, of this process. A rank's operations are counted as they execute, sends
/// and receives too, from 0 from the call here on, over all communicators that were split.
///
/// The environment says the same to a program: AUTOPAR_NCCL_HANG=RANK:K, AUTOPAR_NCCL_FAIL=RANK:K.
namespace autopar::emulation {

/// The rank never comes to its k-th operation: all members wait for it until they abort.
void hang_at(int rank, int k);

/// At its k-th operation the rank's communicator fails asynchronously with ncclRemoteError; what
/// is in its stream hangs until it aborts, as do the others'.
void fail_at(int rank, int k);

/// Whether the members that are left learn by ncclCommGetAsyncError that one has aborted, as over a
/// network (the default), or wait on, as over NVLink. Either way their streams hang until they
/// abort themselves.
void tell_peers_of_aborts(bool tell);

/// How NCCL words that two ranks have one GPU; which it does has changed between releases.
enum class DuplicateWords { up_to_2_29, since_2_30 };
void tell_of_duplicates(DuplicateWords words);

/// Forgets faults; aborts are told again, and duplicates in the first words.
void clear_nccl_faults();

}  // namespace autopar::emulation
