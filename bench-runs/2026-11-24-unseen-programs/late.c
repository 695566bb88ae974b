#include <dlfcn.h>
#include <stdio.h>
int main(void) { for (int i = 0; i < 3; i++) { void *l = dlopen("./ctor.so", RTLD_NOW); void (*f)(void) = (void (*)(void))dlsym(l, "use"); f(); dlclose(l); } puts("closed"); return 2; }
