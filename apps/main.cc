#include "qkv/base/error.h"
int main() { return 0; }
