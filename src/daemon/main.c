// SPDX-License-Identifier: Apache-2.0
#include "conf/conf.h"

int main(void)
{
    return 0;
}
