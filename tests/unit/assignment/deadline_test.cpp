#include "assignment/deadline.h"

#include <catch2/catch.hpp>

using namespace autopar::assignment;

TEST_CASE("a deadline without a clock has no end of work") {
  const Deadline deadline(1e6);
  deadline.count(1e9);
  CHECK_FALSE(deadline.is_over());
  CHECK_FALSE(deadline.within_work(0).is_over());
  CHECK(Deadline(0).is_over());
}

TEST_CASE("work ends a deadline, and those that are within it, the earlier the sooner") {
  WorkClock clock;
  const Deadline whole(1e6, clock);
  const Deadline ten = whole.within_work(10);
  const Deadline three = ten.within_work(3);
  const Deadline more = three.within_work(100);
  CHECK(whole.work_left() > 1e12);
  CHECK(ten.work_left() == 10);
  CHECK(more.work_left() == 3);
  three.count(3);
  CHECK(clock.seconds == 3);
  CHECK(three.is_over());
  CHECK(more.is_over());
  CHECK_FALSE(ten.is_over());
  CHECK(ten.within_work(3).work_left() == 3);
  whole.count(7);
  CHECK(ten.is_over());
  CHECK(ten.within_work(3).is_over());
  CHECK_FALSE(whole.is_over());
}

TEST_CASE("a share is of the time and the work that are left") {
  WorkClock clock;
  const Deadline whole = Deadline(1000, clock).within_work(8);
  clock.seconds += 4;
  const Deadline half = whole.share(0.5);
  CHECK(half.work_left() == 2);
  CHECK(half.left() <= 500);
  CHECK(half.left() > 400);
  CHECK(whole.work_left() == 4);
  CHECK(whole.left() > 900);
  CHECK(Deadline(0, clock).share(0.5).is_over());
  clock.seconds += 10;
  CHECK(whole.share(0.5).is_over());
  CHECK(whole.share(1).work_left() == whole.work_left());
}
