/*
 * Assumptions that several accountants share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/accountant.h"

void eps__assume_causal_order(struct eps__sentences *list, const struct eps__setting *setting,
                              const struct eps_result *result)
{
    (void)setting;
    eps__sentence(list, "%s",
                  result->adaptive ? "the rows are released in causal order; inputs may depend on earlier rows"
                                   : "the inputs do not depend on earlier outputs");
}
