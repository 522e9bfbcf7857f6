/* Tests of the plain runner: with --fail-fast the second one does not run. */
#include <criterion/criterion.h>

Test(plain, a_test_that_fails) { cr_assert(0); }
Test(plain, a_test_that_passes) {}
